//! The ends of requests in one reporting period of one pod: how long the app took.
//!
//! [`EndedRequests`](super::EndedRequests) counts them. The metrics-adapter passes them to the
//! learned target. For pods without a sidecar, an activator reports them. A sidecar of an app that
//! does not use HTTP reports none.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plausible::is_plausible;

/// The requests that ended in one period. Counts and sums are divided by the period's length, as in
/// [`Stat`](super::Stat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AppStat {
    /// Requests that ended after the app received them; includes failed and cancelled ones.
    pub completions: f64,
    /// Seconds in the app, from dequeue to the last byte of the response, summed over them.
    pub seconds: f64,
    /// Those that failed.
    pub errors: f64,
    /// Those that took longer than the objective; excludes failed ones.
    pub misses: f64,
    /// The latency objective in force for the whole period, in microseconds; 0 without one.
    pub objective_micros: u64,
}

// === impl AppStat ===

impl AppStat {
    /// Whether every value is from 0 to 10⁹.
    pub fn is_plausible(&self) -> bool {
        [self.completions, self.seconds, self.errors, self.misses].into_iter().all(is_plausible)
    }

    /// The sum of two reports; `None` if they count against different objectives.
    pub fn plus(self, other: Self) -> Option<Self> {
        (self.objective_micros == other.objective_micros).then_some(Self {
            completions: self.completions + other.completions,
            seconds: self.seconds + other.seconds,
            errors: self.errors + other.errors,
            misses: self.misses + other.misses,
            objective_micros: self.objective_micros,
        })
    }

    /// The objective as it is reported.
    pub fn objective_micros_of(objective: Option<Duration>) -> u64 {
        objective.map_or(0, |objective| u64::try_from(objective.as_micros()).unwrap_or(u64::MAX))
    }
}
