//! One second of one pod.

use std::time::Duration;

use autoscaler::stats::{AppStat, Stat, is_plausible};

use crate::tuning;

/// Least number of requests in a second that has any. A report of a smaller part of a request is
/// damaged, and a mean over it would not be finite.
const LEAST_COUNT: f64 = 1e-3;

/// What one pod reported for one second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PodSecond {
    /// Time since the pod became ready.
    pub age: Duration,
    /// Requests in the pod, averaged over the second.
    pub concurrency: f64,
    /// Requests that arrived.
    pub arrivals: f64,
    /// Ends of requests; `None` from a sidecar that does not report them, or reports them against
    /// another objective.
    pub app: Option<AppSecond>,
    /// Memory of the container as a share of its limit, by a reading that is new in this second. A
    /// reading counts once; there is one each 15 s where the cluster has `metrics.k8s.io`.
    pub memory: Option<f64>,
    /// CPU of the container, by the same reading.
    pub cpu: Option<CpuReading>,
}

/// The CPU time that a container used between two times, both in Unix time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuReading {
    /// As a share of its limit.
    pub share: f64,
    pub from: Duration,
    pub to: Duration,
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
    /// What a pod of this age reported by its stat.
    pub fn new(stat: &Stat, age: Duration) -> Self {
        Self {
            age,
            concurrency: stat.average_concurrent_requests,
            arrivals: stat.request_count,
            app: stat.app.map(AppSecond::from),
            ..Self::default()
        }
    }

    /// Whether the pod has just become ready.
    pub(crate) fn is_young(&self) -> bool {
        self.age < tuning::evidence::YOUNG_POD
    }

    /// Whether every value is finite and in its range. Other seconds count as missing.
    pub fn is_plausible(&self) -> bool {
        let app = self.app.unwrap_or_default();
        let counts = [self.arrivals, app.completions];
        let can_be_averaged = counts.into_iter().all(|count| count == 0.0 || count >= LEAST_COUNT);
        can_be_averaged && self.values_are_plausible()
    }

    fn values_are_plausible(&self) -> bool {
        let app = self.app.unwrap_or_default();
        [self.concurrency, self.arrivals, app.completions, app.seconds, app.misses, app.errors]
            .into_iter()
            .chain(self.memory)
            .chain(self.cpu.map(|cpu| cpu.share))
            .all(is_plausible)
    }
}

// === impl AppSecond ===

impl AppSecond {
    /// Requests that count against the objective.
    pub fn bad(&self) -> f64 {
        (self.misses + self.errors).min(self.completions)
    }
}

impl From<AppStat> for AppSecond {
    fn from(stat: AppStat) -> Self {
        let AppStat { completions, seconds, errors, misses, objective_micros: _ } = stat;
        Self { completions, seconds, misses, errors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_with_a_tiny_part_of_a_request_counts_as_missing() {
        let second = |arrivals, completions| PodSecond {
            concurrency: 1.0,
            arrivals,
            app: Some(AppSecond { completions, seconds: 1.0, ..AppSecond::default() }),
            ..PodSecond::default()
        };
        assert!(second(0.0, 0.0).is_plausible());
        assert!(second(0.5, 1.0).is_plausible());
        assert!(!second(f64::MIN_POSITIVE / 2.0, 1.0).is_plausible());
        assert!(!second(1.0, 1e-300).is_plausible(), "its mean time would be infinite");
    }
}
