//! Numbers of the load curve, and of the regime that compares seconds with it.

use std::time::Duration;

/// The load curve, and whether the service time is still the curve's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurveTuning {
    /// Weight of the curve's and the memory's past after a block, a half-life of 30 min. Chosen.
    pub(crate) fading: f64,
    /// Requests from which on a bin counts as known. Chosen.
    pub(crate) known_requests: f64,
    /// Requests of a reference at low load. Chosen.
    pub(crate) reference_requests: f64,
    /// Highest over lowest load of a reference, half an octave: one bin alone may already be above
    /// the knee. Arithmetic: the square root of 2.
    pub(crate) reference_span: f64,
    /// Increase of the time in the app that counts as none. Chosen.
    pub(crate) same_time: f64,
    /// Standard deviations of the mean time of a bin, of exponential service times, that it may
    /// have on top. Chosen.
    pub(crate) same_time_noise: f64,
    /// Fall of a throughput, as a logarithm, that noise of many requests does not reach. Scenario
    /// `slow-dependency`.
    pub(crate) shift_down: f64,
    /// The same for a higher throughput: a larger target has one until its loads are known. Chosen.
    pub(crate) shift_up: f64,
    /// The same in an overload, while requests pile up and drain. Chosen.
    pub(crate) shift_overloaded: f64,
    /// Standard deviations of the number of requests that a shift has on top. Chosen.
    pub(crate) shift_noise: f64,
    /// Requests of a block below which it shows nothing. Chosen.
    pub(crate) shift_requests: f64,
    /// Time after which a shifted regime is the new normal, and in which the last shift freezes the
    /// target: two mixes may alternate. Scenarios `slow-dependency` and `two-mixes`.
    pub(crate) rebase: Duration,
}

impl CurveTuning {
    pub(super) const DEFAULT: Self = Self {
        fading: 0.996,
        known_requests: 300.0,
        reference_requests: 2000.0,
        reference_span: 1.4,
        same_time: 0.05,
        same_time_noise: 1.5,
        shift_down: 0.25,
        shift_up: 0.5,
        shift_overloaded: 0.8,
        shift_noise: 4.0,
        shift_requests: 100.0,
        rebase: Duration::from_secs(600),
    };
}
