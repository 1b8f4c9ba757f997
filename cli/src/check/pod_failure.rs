//! PodFailure: why a pod does not serve, from its status.
//!
//! Input: a pod of a workload or of Rouse. Output: the first cause. A pod that only lacks readiness
//! has a cause after two minutes: a slow start is not a failure.

use std::fmt;

use autoscaler::scaling::pod_start::StartCause;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition, PodStatus};
use kube::ResourceExt;

/// Seconds without readiness that are reported.
const NOT_READY: i64 = 120;
/// Seconds for which a container that ran out of memory is reported.
const OUT_OF_MEMORY: i64 = 3600;

/// Why a pod does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFailure {
    /// The cause: a [`StartCause`], `Unschedulable`, `OOMKilled` or `NotReady`.
    pub reason: &'static str,
    pub pod: String,
    /// The container with the cause, if it is one's.
    pub container: Option<String>,
    /// What Kubernetes reports.
    pub message: String,
}

/// The first cause of a pod that is to run.
pub fn failure(pod: &Pod, now: Timestamp) -> Option<PodFailure> {
    let status = pod.status.as_ref()?;
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if has_ended || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let found = |reason, container: Option<&str>, message: String| PodFailure {
        reason,
        pod: pod.name_any(),
        container: container.map(str::to_owned),
        message,
    };
    if let Some(condition) = unschedulable(status) {
        return Some(found("Unschedulable", None, text(condition.message.as_ref())));
    }
    let waiting = containers(status).find_map(|it| Some((it, start_failure(it)?)));
    if let Some((container, (reason, message))) = waiting {
        return Some(found(reason, Some(&container.name), message));
    }
    if let Some(container) = containers(status).find(|it| ran_out_of_memory(it, now)) {
        let message = format!("it exceeded its memory limit, {} restarts", container.restart_count);
        return Some(found("OOMKilled", Some(&container.name), message));
    }
    let since = unready_since(status)?;
    (now.as_second().saturating_sub(since.as_second()) > NOT_READY).then(|| {
        let unready = containers(status).find(|it| !it.ready && !has_completed(it));
        found("NotReady", unready.map(|it| it.name.as_str()), format!("it is not ready since {since}"))
    })
}

// === impl PodFailure ===

impl fmt::Display for PodFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, pod, container, message } = self;
        let container = container.as_ref().map(|name| format!(", container {name}")).unwrap_or_default();
        write!(f, "{reason} of pod {pod}{container}: {message}")
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

/// The cause that the scheduler reports.
pub fn unschedulable(status: &PodStatus) -> Option<&PodCondition> {
    condition(status, "PodScheduled")
        .filter(|it| it.status == "False" && it.reason.as_deref() == Some("Unschedulable"))
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

fn start_failure(container: &ContainerStatus) -> Option<(&'static str, String)> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let cause = StartCause::of_waiting(waiting.reason.as_deref()?)?;
    let last = container.last_state.as_ref().filter(|_| cause == StartCause::CrashLoop).and_then(last_end);
    Some((cause.as_str(), last.unwrap_or_else(|| text(waiting.message.as_ref()))))
}

/// How a container ended: the back-off's own message is about its length.
fn last_end(state: &ContainerState) -> Option<String> {
    let ended = state.terminated.as_ref()?;
    let reason = ended.reason.as_deref().unwrap_or("Error");
    let message = ended.message.as_deref().map(|it| format!(": {}", it.trim())).unwrap_or_default();
    Some(format!("{reason}, exit code {}{message}", ended.exit_code))
}

fn ran_out_of_memory(container: &ContainerStatus, now: Timestamp) -> bool {
    let ended = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    ended.is_some_and(|ended| {
        let is_recent = ended
            .finished_at
            .as_ref()
            .is_some_and(|at| now.as_second().saturating_sub(at.0.as_second()) < OUT_OF_MEMORY);
        is_recent && ended.reason.as_deref() == Some("OOMKilled")
    })
}

fn unready_since(status: &PodStatus) -> Option<Timestamp> {
    let ready = condition(status, "Ready").filter(|condition| condition.status == "False")?;
    Some(ready.last_transition_time.as_ref()?.0)
}

fn text(message: Option<&String>) -> String {
    message.map_or_else(|| "no message".to_owned(), |message| message.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reason(status: &Value) -> Option<&'static str> {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {"name": "web-1"}, "status": status})).unwrap();
        failure(&pod, "2026-01-01T01:00:00Z".parse().unwrap()).map(|failure| failure.reason)
    }

    #[test]
    fn pod_that_serves_or_starts_has_no_failure() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(reason(&ready), None);
        let unready = |at: &str| json!({"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": at}]});
        assert_eq!(reason(&unready("2026-01-01T00:59:00Z")), None);
        assert_eq!(reason(&unready("2026-01-01T00:50:00Z")), Some("NotReady"));
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
