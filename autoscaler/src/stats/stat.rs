//! The statistics of one process for one workload, and the message in which activators push them.

use serde::{Deserialize, Serialize};

use crate::Key;

/// One reporting period (1 s) of one process, for one workload.
///
/// The fields are those of Knative's stat.proto. Concurrency is time-weighted over the period;
/// counts are requests that arrived in it, divided by its length, so they read as requests per
/// second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stat {
    /// Name of the reporting pod; used in logs only.
    pub pod: String,
    /// Requests in flight or queued here, averaged over the period. Includes the proxied ones.
    pub average_concurrent_requests: f64,
    /// The part of it that an activator forwarded and has counted already.
    pub average_proxied_concurrent_requests: f64,
    /// Requests that arrived, per second. Includes the proxied ones.
    pub request_count: f64,
    /// The part of it that an activator forwarded.
    pub proxied_request_count: f64,
    /// Whole Unix seconds at the end of the period.
    pub timestamp: i64,
}

/// Largest plausible value. No process has 10⁹ concurrent requests, and sums of such numbers would
/// displace small ones from a float's precision for the rest of a window.
const MAX_PLAUSIBLE: f64 = 1e9;

/// A [`Stat`] and its workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatMessage {
    /// The workload.
    pub key: Key,
    /// The stat of one activator for the workload.
    pub stat: Stat,
}

/// One websocket text message of an activator: once a second for all workloads with requests, and
/// at once for one workload whose first request is held.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActivatorReport {
    /// Name of the activator's pod.
    pub activator: String,
    /// The workloads with requests in this activator now or in the last period.
    pub messages: Vec<StatMessage>,
    /// Slow wakes of requests that were answered since the last report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_wakes: Vec<SlowWake>,
}

/// A request that was held for long, for an event on the workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowWake {
    /// The workload.
    pub key: Key,
    /// Durations of the parts of one held request's path, as text for people.
    pub parts: String,
}

// === impl Stat ===

impl Stat {
    /// Whether every value is from 0 to 10⁹. Any other stat is invalid and must be dropped.
    pub fn is_plausible(&self) -> bool {
        [
            self.average_concurrent_requests,
            self.average_proxied_concurrent_requests,
            self.request_count,
            self.proxied_request_count,
        ]
        .iter()
        .all(|value| (0.0..=MAX_PLAUSIBLE).contains(value))
    }

    /// Whether the process had no request at all in the period, proxied or not.
    pub fn is_idle(&self) -> bool {
        self.average_concurrent_requests == 0.0 && self.request_count == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four stats, each with another of the four fields set to `value`.
    fn with_each(value: f64) -> [Stat; 4] {
        [
            Stat { average_concurrent_requests: value, ..Stat::default() },
            Stat { average_proxied_concurrent_requests: value, ..Stat::default() },
            Stat { request_count: value, ..Stat::default() },
            Stat { proxied_request_count: value, ..Stat::default() },
        ]
    }

    #[test]
    fn one_invalid_value_makes_a_stat_implausible() {
        for good in [0.0, 0.001, 1e9] {
            assert!(with_each(good).iter().all(Stat::is_plausible), "{good}");
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1.001e9] {
            assert!(!with_each(bad).iter().any(Stat::is_plausible), "{bad}");
        }
    }

    #[test]
    fn request_in_flight_or_arrived_ends_idleness() {
        let [concurrency, _, count, _] = with_each(0.001);
        assert!(Stat::default().is_idle());
        assert!(!concurrency.is_idle(), "arrived before the period");
        assert!(!count.is_idle(), "arrived and ended within no time");
    }
}
