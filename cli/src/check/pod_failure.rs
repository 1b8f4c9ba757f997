//! PodFailure: why a pod does not serve, from its status.
//!
//! Input: a pod of a workload or of Rouse. Output: the first cause, as the zero-scaler reads it;
//! then what it does not report: a recent lack of memory, and a pod that only lacks readiness for
//! two minutes, as a slow start is not a failure.

use std::fmt;

use autoscaler::findings::pod_status::{PodReadiness, pod_readiness};
use autoscaler::findings::reasons::{CheckReason, Reason, ReasonDescription};
use autoscaler::settings::SidecarMode;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use kube::ResourceExt;

/// Seconds without readiness that are reported.
const NOT_READY: i64 = 120;
/// Seconds for which a container that ran out of memory is reported.
const OUT_OF_MEMORY: i64 = 3600;

/// Why a pod does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    pub reason: ReasonDescription,
    pub pod: String,
    /// The container with the cause, if it is one's.
    pub container: Option<String>,
    /// What Kubernetes reports.
    pub message: String,
}

/// The first cause of a pod that is to run.
pub fn failure(pod: &Pod, now: Timestamp) -> Option<PodFailure> {
    let status = pod.status.as_ref()?;
    let found = |reason: ReasonDescription, container: Option<&str>, message: String| PodFailure {
        reason,
        pod: pod.name_any(),
        container: container.map(str::to_owned),
        message,
    };
    let starting = match pod_readiness(pod, SidecarMode::None) {
        PodReadiness::Ended => return None,
        PodReadiness::Starting(starting) => Some(starting),
        _ => None,
    };
    if let Some(cause) = starting.as_ref().and_then(|starting| starting.cause(false)) {
        let ended =
            containers(status).find(|it| Some(it.name.as_str()) == cause.container).and_then(last_end);
        let message = ended.and_then(|ended| ended.message.as_deref());
        let message = message.map(|it| format!(": {}", it.trim())).unwrap_or_default();
        let message = format!("{}{message}", cause.message.trim());
        return Some(found(Reason::from(cause.cause).into(), cause.container, message));
    }
    if let Some(container) = containers(status).find(|it| ran_out_of_memory(it, now)) {
        let message = format!("it exceeded its memory limit, {} restarts", container.restart_count);
        return Some(found(CheckReason::OOMKilled.into(), Some(&container.name), message));
    }
    let since = unready_since(status)?;
    (now.as_second().saturating_sub(since.as_second()) > NOT_READY).then(|| {
        let unready = containers(status).find(|it| !it.ready && !has_completed(it));
        let message = format!("it is not ready since {since}");
        found(CheckReason::PodNotReady.into(), unready.map(|it| it.name.as_str()), message)
    })
}

// === impl PodFailure ===

impl fmt::Display for PodFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, pod, container, message } = self;
        let container = container.as_ref().map(|name| format!(", container {name}")).unwrap_or_default();
        write!(f, "{} of pod {pod}{container}: {message}", reason.reason)
    }
}

fn containers(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
}

/// Init containers complete, and are not ready then.
fn has_completed(container: &ContainerStatus) -> bool {
    let ended = container.state.as_ref().and_then(|state| state.terminated.as_ref());
    ended.is_some_and(|ended| ended.exit_code == 0)
}

fn last_end(container: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    container.last_state.as_ref()?.terminated.as_ref()
}

fn ran_out_of_memory(container: &ContainerStatus, now: Timestamp) -> bool {
    last_end(container).is_some_and(|ended| {
        let is_recent = ended
            .finished_at
            .as_ref()
            .is_some_and(|at| now.as_second().saturating_sub(at.0.as_second()) < OUT_OF_MEMORY);
        is_recent && ended.reason.as_deref() == Some("OOMKilled")
    })
}

fn unready_since(status: &PodStatus) -> Option<Timestamp> {
    let mut conditions = status.conditions.iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "False")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(status: &Value) -> Option<&'static str> {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": status})).unwrap();
        failure(&pod, "2026-01-01T01:00:00Z".parse().unwrap()).map(|failure| failure.reason.reason)
    }

    #[test]
    fn pod_that_serves_or_starts_has_no_failure() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(reason(&ready), None);
        let unready = |at: &str| json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at}]});
        assert_eq!(reason(&unready("2026-01-01T00:59:00Z")), None);
        assert_eq!(reason(&unready("2026-01-01T00:50:00Z")), Some("PodNotReady"));
        let ended = json!({"phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        assert_eq!(reason(&ended), None);
    }

    #[test]
    fn old_lack_of_memory_is_no_failure() {
        let killed = |at: &str| {
            json!({"containerStatuses": [{
                "name": "app", "image": "", "imageID": "", "ready": true, "restartCount": 1,
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": at}},
            }]})
        };
        assert_eq!(reason(&killed("2026-01-01T00:30:00Z")), Some("OOMKilled"));
        assert_eq!(reason(&killed("2025-12-01T00:30:00Z")), None);
    }
}
