//! What a process reports about one workload, and the envelope in which activators push it.

use serde::{Deserialize, Serialize};

use crate::Key;

/// One reporting period (1 s) of one process, for one workload.
///
/// The fields are those of Knative's stat.proto. Concurrency is time-weighted over the period; counts are requests that
/// arrived in it, divided by its length, so they read as requests per second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stat {
    /// Name of the reporting pod; told apart in logs only.
    pub pod: String,
    /// Requests in flight or queued here, averaged over the period. Includes the proxied ones.
    pub average_concurrent_requests: f64,
    /// The part of it that an activator forwarded, which that activator has counted already.
    pub average_proxied_concurrent_requests: f64,
    /// Requests that arrived, per second. Includes the proxied ones.
    pub request_count: f64,
    /// The part of it that an activator forwarded.
    pub proxied_request_count: f64,
    /// Whole Unix seconds at the end of the period.
    pub timestamp: i64,
}

/// Largest value that a report may hold. No process has a thousand million requests at a time; and sums of such numbers would
/// push small ones out of a float's precision for the rest of a window.
const MAX_PLAUSIBLE: f64 = 1e9;

/// A [`Stat`] and the workload it speaks of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatMessage {
    /// The workload.
    pub key: Key,
    /// What its activator saw of it.
    pub stat: Stat,
}

/// One websocket text message of an activator: everything it carries, once a second, and one workload at once when it goes
/// from idle to waiting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActivatorReport {
    /// Name of the activator's pod.
    pub activator: String,
    /// The workloads that it carries or has just stopped to carry.
    pub messages: Vec<StatMessage>,
    /// Requests that were held for long, and have their answers since the last report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_wakes: Vec<SlowWake>,
}

/// What people are told of a wake that took long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowWake {
    /// The workload.
    pub key: Key,
    /// How long the parts of one held request's way took, in words.
    pub parts: String,
}

// === impl Stat ===

impl Stat {
    /// Whether every value is a number from 0 to a thousand million. Anything else is nonsense and must be dropped.
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

    /// Whether the process saw no request at all in the period, proxied or not.
    pub fn is_idle(&self) -> bool {
        self.average_concurrent_requests == 0.0 && self.request_count == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report with each of its four values in turn.
    fn with_each(value: f64) -> [Stat; 4] {
        [
            Stat { average_concurrent_requests: value, ..Stat::default() },
            Stat { average_proxied_concurrent_requests: value, ..Stat::default() },
            Stat { request_count: value, ..Stat::default() },
            Stat { proxied_request_count: value, ..Stat::default() },
        ]
    }

    #[test]
    fn one_impossible_value_makes_a_report_implausible() {
        for good in [0.0, 0.001, 1e9] {
            assert!(with_each(good).iter().all(Stat::is_plausible), "{good}");
        }
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1.001e9] {
            assert!(!with_each(bad).iter().any(Stat::is_plausible), "{bad}");
        }
    }

    #[test]
    fn a_request_that_came_or_was_here_ends_idleness() {
        let [concurrency, _, count, _] = with_each(0.001);
        assert!(Stat::default().is_idle());
        assert!(!concurrency.is_idle(), "one that came before the period");
        assert!(!count.is_idle(), "one that was here for no time");
    }
}
