//! Numbers of the load curve, and of the regime that compares seconds with it.

use std::time::Duration;

/// Weight of the curve's and the memory's past after a block, a half-life of 30 min. Chosen.
pub(crate) const FADING: f64 = 0.996;
/// Requests from which on a bin counts as known. Chosen.
pub(crate) const KNOWN_REQUESTS: f64 = 300.0;
/// Requests of a reference at low load. Chosen.
pub(crate) const REFERENCE_REQUESTS: f64 = 2000.0;
/// Highest over lowest load of a reference, half an octave: one bin alone may already be above
/// the knee. Arithmetic: the square root of 2.
pub(crate) const REFERENCE_SPAN: f64 = 1.4;
/// Increase of the time in the app that counts as none. Chosen.
pub(crate) const SAME_TIME: f64 = 0.05;
/// Standard deviations of the mean time of a bin, of exponential service times, that it may
/// have on top. Chosen.
pub(crate) const SAME_TIME_NOISE: f64 = 1.5;
/// Fall of a throughput, as a logarithm, that noise of many requests does not reach. Scenario
/// `slow-dependency`.
pub(crate) const SHIFT_DOWN: f64 = 0.25;
/// The same for a higher throughput, as after a raise until the curve has its loads. Chosen.
pub(crate) const SHIFT_UP: f64 = 0.5;
/// The same in an overload, while requests pile up and drain. Chosen.
pub(crate) const SHIFT_OVERLOADED: f64 = 0.8;
/// Standard deviations of the number of requests that a shift has on top. Chosen.
pub(crate) const SHIFT_NOISE: f64 = 4.0;
/// Requests of a block below which it shows nothing. Chosen.
pub(crate) const SHIFT_REQUESTS: f64 = 100.0;
/// Time after which a shifted regime is the new normal, and in which the last shift freezes the
/// target: two mixes may alternate. Scenarios `slow-dependency` and `two-mixes`.
pub(crate) const REBASE: Duration = Duration::from_secs(600);
