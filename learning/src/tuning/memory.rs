//! Numbers of the memory rules.

use std::time::Duration;

/// Memory of the pods.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryTuning {
    /// Weight of a second in the load of a reading, a time constant of 20 s: readings come each 15
    /// s and are late. Chosen.
    pub(crate) smoothing: f64,
    /// Readings from which on the line replaces what a kill showed. Chosen.
    pub(crate) precise_readings: f64,
    /// Standard deviations of a momentary load that is never exceeded. Chosen.
    pub(crate) peak: f64,
    /// Least spread of the momentary load over the spread of independent arrivals. With few pods it
    /// grows. Scenario `memory-limit`.
    pub(crate) least_spread: f64,
    /// Factor on the load of the pods at a kill: one pod had more than their mean. Scenario
    /// `memory-limit`.
    pub(crate) after_kill: f64,
    /// Least load at a kill over the target: requests do not take the memory of idle pods. Chosen.
    pub(crate) least_killed: f64,
    /// Factor on the target at a kill before any second of load. Chosen, untested.
    pub(crate) after_early_kill: f64,
    /// Factor on the target at a kill that the line did not expect, and on the requests that fit by
    /// the line after any kill: the loads of its readings are smoothed. Scenario `memory-limit`.
    pub(crate) after_rare_kill: f64,
    /// A target is lowered to a limit of memory or CPU from this factor over the fitting one on.
    /// Chosen.
    pub(crate) excess: f64,
    /// Time after a kill in which pods have a limit: until those for the load have started and been
    /// read. A kill by something else than requests throttles no longer. Chosen.
    pub(crate) limited: Duration,
}

impl MemoryTuning {
    pub(super) const DEFAULT: Self = Self {
        smoothing: 0.05,
        precise_readings: 100.0,
        peak: 4.0,
        least_spread: 0.775,
        after_kill: 0.7,
        least_killed: 0.25,
        after_early_kill: 0.5,
        after_rare_kill: 0.85,
        excess: 1.05,
        limited: Duration::from_secs(600),
    };
}
