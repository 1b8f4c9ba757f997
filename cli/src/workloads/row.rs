//! WorkloadRow: one workload in the tables of `status` and `top`.

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, PodAutoscalerStatus, ScheduleStatus, WorkloadPhase};
use autoscaler::history::CurrentSample;
use autoscaler::scaling::readable::CompactNumber;
use autoscaler::scaling::savings::ResourceTime;
use jiff::Timestamp;
use serde::Serialize;

use super::why_report::WhyReport;

/// Seconds in an hour.
const HOUR: f64 = 3600.0;

/// One workload. Absent values are unknown, not zero.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    pub namespace: String,
    pub name: String,
    /// State in one word.
    pub state: Option<WorkloadPhase>,
    /// Reason of the state.
    pub reason: Option<String>,
    /// Explanation of the reason.
    pub message: Option<String>,
    /// `spec.replicas` of the target.
    pub size: Option<i32>,
    /// Ready pods.
    pub ready: Option<u32>,
    /// Name of the metric.
    pub metric: Option<String>,
    /// The metric's average over the stable window, of all pods together.
    pub load: Option<f64>,
    /// The load that one pod should carry.
    pub target: Option<f64>,
    /// Pods that the load needs, before minReplicas and maxReplicas.
    pub decided: Option<u32>,
    /// Whether panic mode is on.
    pub panicking: bool,
    /// Hours of a pod that it did not use because it was at zero, less the starts after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_pod_hours: Option<f64>,
    /// The same in hours of requested CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_cpu_hours: Option<f64>,
    /// The same in hours of requested GiB of memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved_memory_gib_hours: Option<f64>,
    /// The minimum of its schedule, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleStatus>,
    /// Why the load is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// What a workload saved, in hours.
#[derive(Clone, Copy)]
struct SavedHours {
    pods: f64,
    cpus: f64,
    memory_gib: f64,
}

// === impl WorkloadRow ===

impl WorkloadRow {
    /// The row of a PodAutoscaler, with the report or the reason why there is none.
    ///
    /// `now` ends the account of its savings.
    pub fn new(
        key: &Key,
        workload: &PodAutoscaler,
        report: Result<&WhyReport, String>,
        now: Timestamp,
    ) -> Self {
        let status = workload.status.clone().unwrap_or_default();
        let missing = match &report {
            Ok(report) => report.missing.clone(),
            Err(error) => Some(error.clone()),
        };
        let report = report.ok();
        let saved = status.savings.as_ref().map(|savings| SavedHours::of(savings.at(now)));
        let newest = report.and_then(WhyReport::newest);
        Self {
            ready: report.map(|report| report.pods.ready),
            metric: report.map(|report| report.metric.clone()),
            load: report.and_then(WhyReport::load),
            target: report.and_then(WhyReport::target),
            decided: newest.and_then(|decision| decision.desired),
            panicking: newest.is_some_and(|decision| decision.panicking),
            missing,
            ..Self::of_status(key, status).with_savings(saved)
        }
    }

    /// The row of a PodAutoscaler with its present load, if the metrics-adapter has one.
    ///
    /// `now` ends the account of its savings. Saved hours are rounded down to hundredths: a page
    /// would otherwise change with each poll.
    pub fn of_sample(
        key: &Key,
        workload: &PodAutoscaler,
        current: Option<&CurrentSample>,
        now: Timestamp,
    ) -> Self {
        let status = workload.status.clone().unwrap_or_default();
        let saved = status.savings.as_ref().map(|savings| SavedHours::of(savings.at(now)).rounded_down());
        let status = Self::of_status(key, status).with_savings(saved);
        let Some(current) = current else { return status };
        Self {
            ready: Some(current.sample.ready),
            metric: Some(current.metric.clone()),
            load: current.sample.load,
            target: Some(current.sample.target),
            decided: current.sample.decided,
            panicking: current.sample.panicking,
            missing: current.missing.clone(),
            ..status
        }
    }

    /// The row of a PodAutoscaler of another version.
    pub fn undecodable(key: &Key, error: String) -> Self {
        let status = PodAutoscalerStatus {
            reason: Some("Undecodable".to_owned()),
            message: Some(error),
            ..PodAutoscalerStatus::default()
        };
        Self::of_status(key, status)
    }

    /// Without a load.
    fn of_status(key: &Key, status: PodAutoscalerStatus) -> Self {
        Self {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            state: status.phase,
            reason: status.reason,
            message: status.message,
            size: status.replicas,
            ready: None,
            metric: None,
            load: None,
            target: None,
            decided: None,
            panicking: false,
            saved_pod_hours: None,
            saved_cpu_hours: None,
            saved_memory_gib_hours: None,
            schedule: status.schedule,
            missing: None,
        }
    }

    fn with_savings(self, saved: Option<SavedHours>) -> Self {
        Self {
            saved_pod_hours: saved.map(|saved| saved.pods),
            saved_cpu_hours: saved.map(|saved| saved.cpus),
            saved_memory_gib_hours: saved.map(|saved| saved.memory_gib),
            ..self
        }
    }

    /// The load of one ready pod.
    pub fn load_per_pod(&self) -> Option<f64> {
        let pods = self.ready.filter(|&pods| pods > 0)?;
        Some(self.load? / f64::from(pods))
    }

    /// Load of a ready pod in percent of its target.
    pub fn utilization(&self) -> Option<f64> {
        let target = self.target.filter(|&target| target > 0.0)?;
        Some(100.0 * self.load_per_pod()? / target)
    }
}

// === impl SavedHours ===

impl SavedHours {
    fn of(saved: ResourceTime) -> Self {
        Self {
            pods: saved.pod_seconds as f64 / HOUR,
            cpus: saved.cpu_milli_seconds as f64 / 1000.0 / HOUR,
            memory_gib: saved.memory_mib_seconds as f64 / 1024.0 / HOUR,
        }
    }

    fn rounded_down(self) -> Self {
        let round = |hours: f64| (hours * 100.0).floor() / 100.0;
        Self { pods: round(self.pods), cpus: round(self.cpus), memory_gib: round(self.memory_gib) }
    }
}

/// A cell of a table: the value, or `-`.
pub fn cell(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A cell with a number.
pub fn number(value: Option<f64>) -> String {
    cell(value.map(CompactNumber))
}

/// A cell with the state.
pub fn state(state: Option<WorkloadPhase>) -> String {
    cell(state.map(|state| format!("{state:?}")))
}
