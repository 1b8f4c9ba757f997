//! SavingsStatus: the savings of a workload in the status of its PodAutoscaler, from which the
//! account continues after a restart.
//!
//! The totals are of the phases that are over. A reader adds the present one
//! ([`SavingsStatus::at`]), so a workload at zero needs no writes.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scaling::savings::{PodRequests, ResourceTime, Savings, SavingsPhase};

/// What the workload did not use because it was at zero, against one pod at all times. The time in
/// which pods start after zero is subtracted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavingsStatus {
    /// When the account began.
    pub since: Time,
    /// Seconds of a pod, without the present phase.
    #[serde(default)]
    pub pod_seconds: i64,
    /// Seconds of a thousandth of a CPU, by the requests of the pods.
    #[serde(default)]
    pub cpu_milli_seconds: i64,
    /// Seconds of a mebibyte of memory, by the requests of the pods.
    #[serde(default)]
    pub memory_mebibyte_seconds: i64,
    /// Wakes since the account began.
    #[serde(default)]
    pub wakes: i64,
    /// Since when the size is 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_zero_since: Option<Time>,
    /// Since when pods start after zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_since: Option<Time>,
    /// The number of pods that start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starting_pods: Option<i64>,
    /// Thousandths of a CPU that one pod requests in the present phase.
    #[serde(default)]
    pub pod_cpu_milli: i64,
    /// Mebibytes of memory that one pod requests in the present phase.
    #[serde(default)]
    pub pod_memory_mebibytes: i64,
    /// The pods' termination grace period, with which a phase at zero begins.
    #[serde(default)]
    pub grace_seconds: i64,
}

// === impl SavingsStatus ===

impl SavingsStatus {
    /// All until `now`, the present phase included.
    pub fn at(&self, now: Timestamp) -> ResourceTime {
        Savings::from(self).at(now.as_millisecond())
    }
}

impl From<&SavingsStatus> for Savings {
    fn from(status: &SavingsStatus) -> Self {
        let millis = |Time(time): &Time| time.as_millisecond();
        let phase = match (&status.at_zero_since, &status.starting_since) {
            (Some(since), _) => SavingsPhase::AtZero { since: millis(since) },
            (None, Some(since)) => {
                SavingsPhase::Starting { since: millis(since), pods: status.starting_pods.unwrap_or(1) }
            }
            (None, None) => SavingsPhase::Running,
        };
        Self {
            since: millis(&status.since),
            total: ResourceTime {
                pod_seconds: status.pod_seconds,
                cpu_milli_seconds: status.cpu_milli_seconds,
                memory_mib_seconds: status.memory_mebibyte_seconds,
            },
            wakes: status.wakes,
            phase,
            requests: PodRequests {
                cpu_milli: status.pod_cpu_milli,
                memory_mib: status.pod_memory_mebibytes,
            },
            grace_seconds: status.grace_seconds,
        }
    }
}

impl From<Savings> for SavingsStatus {
    fn from(savings: Savings) -> Self {
        let time = |millis: i64| Time(Timestamp::from_millisecond(millis).unwrap_or_default());
        let (at_zero_since, starting) = match savings.phase {
            SavingsPhase::Running => (None, None),
            SavingsPhase::AtZero { since } => (Some(time(since)), None),
            SavingsPhase::Starting { since, pods } => (None, Some((time(since), pods))),
        };
        Self {
            since: time(savings.since),
            pod_seconds: savings.total.pod_seconds,
            cpu_milli_seconds: savings.total.cpu_milli_seconds,
            memory_mebibyte_seconds: savings.total.memory_mib_seconds,
            wakes: savings.wakes,
            at_zero_since,
            starting_pods: starting.as_ref().map(|(_, pods)| *pods),
            starting_since: starting.map(|(since, _)| since),
            pod_cpu_milli: savings.requests.cpu_milli,
            pod_memory_mebibytes: savings.requests.memory_mib,
            grace_seconds: savings.grace_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_continues_from_its_status() {
        let total = ResourceTime { pod_seconds: 10, cpu_milli_seconds: 2500, memory_mib_seconds: 640 };
        let requests = PodRequests { cpu_milli: 250, memory_mib: 64 };
        let phases = [
            SavingsPhase::Running,
            SavingsPhase::AtZero { since: 1_795_600_000_000 },
            SavingsPhase::Starting { since: 1_795_600_000_000, pods: 3 },
        ];
        for phase in phases {
            let since = 1_795_000_000_000;
            let savings = Savings { since, total, wakes: 4, phase, requests, grace_seconds: 30 };
            let json = serde_json::to_string(&SavingsStatus::from(savings)).unwrap();
            let status: SavingsStatus = serde_json::from_str(&json).unwrap();
            assert_eq!(Savings::from(&status), savings);
            let later = Timestamp::from_second(1_795_600_060).unwrap();
            assert_eq!(status.at(later), savings.at(1_795_600_060_000));
        }
    }
}
