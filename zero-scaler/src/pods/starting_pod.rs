//! A pod as the brain's `pod_start` wants it: what keeps it from starting, if anything does.

use autoscaler::contract::QUEUE_PROXY;
use autoscaler::scaling::pod_start::{StartingContainer, StartingPod};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};

/// Longer sentences are cut, in bytes: they stand in statuses and events.
const LONGEST_MESSAGE: usize = 512;

/// What a pod is on its way to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodStart {
    /// It is there.
    Ready,
    /// So it is, but it has no sidecar, and will have none.
    Bare,
    /// It may become so.
    Starting(StartingPod),
    /// It has ended, or is to.
    Over,
}

/// What this pod is on its way to.
pub(crate) fn pod_start(pod: &Pod) -> PodStart {
    let Some(status) = &pod.status else { return PodStart::Starting(named(pod)) };
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if ended || pod.metadata.deletion_timestamp.is_some() {
        return PodStart::Over;
    }
    if condition(status, "Ready").is_some_and(|(status, ..)| status == "True") {
        return if has_sidecar(pod) { PodStart::Ready } else { PodStart::Bare };
    }
    let unschedulable = condition(status, "PodScheduled")
        .filter(|(status, reason, _)| *status == "False" && *reason == "Unschedulable")
        .map(|(.., message)| cut(message));
    let init = status.init_container_statuses.iter().flatten();
    let containers = init.chain(status.container_statuses.iter().flatten()).map(container).collect();
    PodStart::Starting(StartingPod { unschedulable, containers, ..named(pod) })
}

/// By its container's name or its port's, whoever put it there.
fn has_sidecar(pod: &Pod) -> bool {
    let spec = pod.spec.iter();
    let mut all = spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    all.any(|container| {
        let mut ports = container.ports.iter().flatten();
        container.name == QUEUE_PROXY || ports.any(|port| port.name.as_deref() == Some(QUEUE_PROXY))
    })
}

fn named(pod: &Pod) -> StartingPod {
    StartingPod { name: pod.metadata.name.clone().unwrap_or_default(), ..StartingPod::default() }
}

/// Status, reason and message.
fn condition<'a>(status: &'a PodStatus, r#type: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == r#type)?;
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    Some((condition.status.as_str(), text(&condition.reason), text(&condition.message)))
}

fn container(status: &ContainerStatus) -> StartingContainer {
    let state = status.state.clone().unwrap_or_default();
    let ended_well = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
    let waiting = state.waiting.as_ref().map(|waiting| {
        let text = |text: &Option<String>| cut(text.as_deref().unwrap_or_default());
        (text(&waiting.reason), text(&waiting.message))
    });
    StartingContainer {
        waiting,
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        last_end: status.last_state.as_ref().and_then(|last| end(status, last)),
        done: status.ready || ended_well,
    }
}

fn end(status: &ContainerStatus, last: &ContainerState) -> Option<String> {
    let end = last.terminated.as_ref()?;
    let reason = end.reason.as_deref().unwrap_or("Ended");
    Some(format!("container {} ended with exit code {} ({reason})", status.name, end.exit_code))
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(LONGEST_MESSAGE)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn start(status: Value) -> PodStart {
        start_with(&["app", "queue-proxy"], status)
    }

    fn start_with(containers: &[&str], status: Value) -> PodStart {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let pod =
            json!({"metadata": {"name": "web-1"}, "spec": {"containers": containers}, "status": status});
        pod_start(&serde_json::from_value(pod).unwrap())
    }

    fn starting(status: Value) -> StartingPod {
        match start(status) {
            PodStart::Starting(starting) => starting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_ready_or_over_keeps_nobody_waiting() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(start(ready.clone()), PodStart::Ready);
        assert_eq!(start_with(&["app"], ready), PodStart::Bare);
        assert_eq!(start(json!({"phase": "Failed", "reason": "Evicted"})), PodStart::Over);
        let ending =
            json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}});
        assert_eq!(pod_start(&serde_json::from_value(ending).unwrap()), PodStart::Over);
        assert_eq!(
            starting(json!({"phase": "Pending"})),
            StartingPod { name: "web-1".into(), ..StartingPod::default() }
        );
    }

    #[test]
    fn a_pod_that_fits_nowhere_says_why() {
        let scheduled = |reason: &str| {
            let message = "0/1 nodes are available: 1 Insufficient memory.";
            starting(json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}))
        };
        assert!(scheduled("Unschedulable").unschedulable.unwrap().contains("Insufficient memory"));
        assert_eq!(scheduled("SchedulingGated").unschedulable, None);
    }

    #[test]
    fn containers_tell_what_they_wait_for_and_how_they_ended() {
        let pod = starting(json!({"phase": "Pending",
            "initContainerStatuses": [
                {"name": "migrate", "image": "i", "imageID": "", "ready": false, "restartCount": 3,
                 "state": {"terminated": {"exitCode": 0}}}],
            "containerStatuses": [
                {"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 2,
                 "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                 "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}));
        let [migrate, app] = pod.containers.as_slice() else { panic!("{pod:?}") };
        assert!(migrate.done && !app.done);
        assert_eq!(app.waiting, Some(("CrashLoopBackOff".into(), "back-off 10s".into())));
        assert_eq!(
            (app.restarts, app.last_end.as_deref()),
            (2, Some("container app ended with exit code 1 (Error)"))
        );
    }
}
