//! Numbers of the bracket: how long results hold, and how far below a bad target the next one is.

use std::time::Duration;

/// The next target after a bad one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BracketTuning {
    /// Time after which a raise to a bad target is allowed again, or after a release to one that
    /// was bad for the former template. Chosen.
    pub(crate) validity: Duration,
    /// Factor on the throughput of a pod, and on the speed of a request, by which a release is
    /// another app: its targets are tried as those of a new one. The smallest raise of
    /// `StepTuning::raises`: less room would not be used. Scenario `release-faster`.
    pub(crate) faster_app: f64,
    /// A bad target this far above another one does not replace it. Chosen.
    pub(crate) narrow: f64,
    /// Least and most of the way from the good target to the bad one, in logarithms, at which the
    /// next one is. Chosen.
    pub(crate) least_way: f64,
    pub(crate) most_way: f64,
    /// Distance of two bad targets that shows with which power of the target the severity grows.
    /// Chosen.
    pub(crate) apart: f64,
    /// That power before two bad targets show it. Chosen.
    pub(crate) power: f64,
    /// Least and most power that two bad targets may show. Chosen.
    pub(crate) least_power: f64,
    pub(crate) most_power: f64,
    /// Smallest and largest factor of a lower target without a good one. Chosen: after half the
    /// target there are twice the pods.
    pub(crate) least_factor: f64,
    pub(crate) most_factor: f64,
}

impl BracketTuning {
    pub(super) const DEFAULT: Self = Self {
        validity: Duration::from_secs(3600),
        faster_app: 1.12,
        narrow: 1.15,
        least_way: 0.1,
        most_way: 0.9,
        apart: 1.05,
        power: 2.0,
        least_power: 1.0,
        most_power: 6.0,
        least_factor: 0.5,
        most_factor: 0.93,
    };
}
