//! Numbers of the pressure: the limits of misses and times.

/// Share of the miss budget that a target may use: the rest is for bursts. Chosen.
pub(crate) const USED_BUDGET: f64 = 0.85;
/// Share of the budget that misses at low load may have: above it there is no room to measure
/// the load's own. Exponential service times miss 5 % at three times their mean. Simulation.
pub(crate) const HIGH_BASE: f64 = 0.7;
/// Excess over the miss budget, or over the time at low load, that counts as none. Scenario
/// `eight-servers`.
pub(crate) const SLIGHT: f64 = 0.025;
/// Time in the app at the knee over the time at low load, without an objective.
/// Literature: the tolerance of Gradient2 in Netflix's concurrency-limits; untested.
pub(crate) const KNEE: f64 = 1.5;
/// Severity of a time that is surely above its limit. Chosen.
pub(crate) const SLOW: f64 = 1.2;
/// Severity of a time below which there is room. Chosen.
pub(crate) const FAST: f64 = 0.7;
