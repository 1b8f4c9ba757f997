//! Numbers of the memory rules.

use std::time::Duration;

/// Weight of a second in the load of a reading, a time constant of 20 s: readings come each 15
/// s and are late. Chosen.
pub(crate) const SMOOTHING: f64 = 0.05;
/// Readings from which on the line replaces what a kill showed. Chosen.
pub(crate) const PRECISE_READINGS: f64 = 100.0;
/// Standard deviations of a momentary load that is never exceeded. Chosen.
pub(crate) const PEAK: f64 = 4.0;
/// Least spread of the momentary load over the spread of independent arrivals. With few pods it
/// grows. Scenario `memory-limit`.
pub(crate) const LEAST_SPREAD: f64 = 0.775;
/// Factor on the load of the pods at a kill: one pod had more than their mean. Scenario
/// `memory-limit`.
pub(crate) const AFTER_KILL: f64 = 0.7;
/// Least load at a kill over the target: requests do not take the memory of idle pods. Chosen.
pub(crate) const LEAST_KILLED: f64 = 0.25;
/// Factor on the target at a kill before any second of load. Chosen, untested.
pub(crate) const AFTER_EARLY_KILL: f64 = 0.5;
/// Factor on the target at a kill that the line did not expect, and on the requests that fit by
/// the line after any kill: the loads of its readings are smoothed. Scenario `memory-limit`.
pub(crate) const AFTER_RARE_KILL: f64 = 0.85;
/// A target is lowered to a limit of memory or CPU from this factor over the fitting one on.
/// Chosen.
pub(crate) const EXCESS: f64 = 1.05;
/// Time after a kill in which pods have a limit: until those for the load have started and been
/// read. A kill by something else than requests throttles no longer. Chosen.
pub(crate) const LIMITED: Duration = Duration::from_secs(600);
