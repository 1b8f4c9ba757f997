//! Numbers of the pressure: the limits of misses and times.

/// Whether a trial shows room for more load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PressureTuning {
    /// Share of the miss budget that a target may use: the rest is for bursts. Chosen.
    pub(crate) used_budget: f64,
    /// Share of the budget that misses at low load may have: above it there is no room to measure
    /// the load's own. Exponential service times miss 5 % at three times their mean. Simulation.
    pub(crate) high_base: f64,
    /// Excess over the miss budget, or over the time at low load, that counts as none. Scenario
    /// `eight-servers`.
    pub(crate) slight: f64,
    /// Time in the app at the knee over the time at low load, without an objective.
    /// Literature: the tolerance of Gradient2 in Netflix's concurrency-limits; untested.
    pub(crate) knee: f64,
    /// Severity of a time that is surely above its limit. Chosen.
    pub(crate) slow: f64,
    /// Severity of a time below which there is room. Chosen.
    pub(crate) fast: f64,
}

impl PressureTuning {
    pub(super) const DEFAULT: Self =
        Self { used_budget: 0.85, high_base: 0.7, slight: 0.025, knee: 1.5, slow: 1.2, fast: 0.7 };
}
