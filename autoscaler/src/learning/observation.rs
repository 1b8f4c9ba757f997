//! One second of one pod.

use std::time::Duration;

/// Largest plausible value of a field, as for a [`Stat`](crate::stats::Stat); memory is exempt.
const MAX_PLAUSIBLE: f64 = 1e9;

/// What one pod reported for one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PodSecond {
    /// Time since the pod became ready.
    pub age: Duration,
    /// Requests in the pod, averaged over the second.
    pub concurrency: f64,
    /// Requests that arrived.
    pub arrivals: f64,
    /// Ends of requests; `None` from a sidecar that does not report them.
    pub app: Option<AppSecond>,
    /// Highest memory of the container as a share of its limit.
    pub memory: Option<f64>,
    /// Share of CPU periods in which the container was throttled.
    pub throttled: Option<f64>,
}

/// The requests that ended in one second of one pod.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AppSecond {
    /// Requests that ended, failed ones included.
    pub completions: f64,
    /// Seconds in the app, from dequeue to the last byte of the response, summed over them.
    pub seconds: f64,
    /// Those that took longer than the objective.
    pub misses: f64,
    /// Those that failed.
    pub errors: f64,
}

// === impl PodSecond ===

impl PodSecond {
    /// Whether every value is finite and in its range. Other seconds count as missing.
    pub fn is_plausible(&self) -> bool {
        let plausible = |value: f64| (0.0..=MAX_PLAUSIBLE).contains(&value);
        let app = self.app.unwrap_or_default();
        [self.concurrency, self.arrivals, app.completions, app.seconds, app.misses, app.errors]
            .into_iter()
            .chain(self.memory)
            .chain(self.throttled)
            .all(plausible)
    }
}

// === impl AppSecond ===

impl AppSecond {
    /// Requests that count against the objective.
    pub fn bad(&self) -> f64 {
        (self.misses + self.errors).min(self.completions)
    }
}
