//! Whether a pod is ready, and why not: the input of [`pod_start`](crate::scaling::pod_start) from
//! its status.
//!
//! Conditions and container states are reduced to the facts that explain why a pod is not ready.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodStatus};

use crate::api::sidecar;
use crate::contract::QUEUE_PROXY;
use crate::scaling::pod_start::{StartingContainer, StartingPod};
use crate::settings::SidecarMode;

/// Longer messages are truncated, because statuses and events contain them.
const MAX_MESSAGE_BYTES: usize = 512;

/// Readiness of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodReadiness {
    /// Ready, with a sidecar if the workload needs one.
    Ready,
    /// Ready and not usable as an endpoint; containers cannot be added to a running pod.
    ReadyWithoutSidecar,
    /// Ready and not selected by the Service.
    ReadyNotSelected,
    /// Not ready yet.
    Starting(StartingPod),
    /// Scheduled, and its node has not reported anything about it.
    Unacknowledged {
        /// The pod.
        pod: StartingPod,
        /// Its node.
        node: String,
    },
    /// Terminated or being deleted.
    Ended,
}

/// The readiness of a pod, and what a pod that is not ready waits for.
pub fn pod_readiness(pod: &Pod, sidecar: SidecarMode) -> PodReadiness {
    let Some(status) = &pod.status else { return PodReadiness::Starting(empty_status(pod)) };
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if ended || pod.metadata.deletion_timestamp.is_some() {
        return PodReadiness::Ended;
    }
    if condition(status, "Ready").is_some_and(|(status, ..)| status == "True") {
        let usable = !sidecar.is_required() || has_sidecar(pod);
        return if usable { PodReadiness::Ready } else { PodReadiness::ReadyWithoutSidecar };
    }
    if let Some(node) = node(pod).filter(|_| status.start_time.is_none()) {
        return PodReadiness::Unacknowledged { pod: empty_status(pod), node: node.to_owned() };
    }
    let unschedulable = condition(status, "PodScheduled")
        .filter(|(status, reason, _)| *status == "False" && *reason == "Unschedulable")
        .map(|(.., message)| truncate(message));
    let init = status.init_container_statuses.iter().flatten();
    let containers = init.chain(status.container_statuses.iter().flatten()).map(starting_container).collect();
    let unresponsive_node = lost_node(pod, status);
    PodReadiness::Starting(StartingPod { unschedulable, unresponsive_node, containers, ..empty_status(pod) })
}

/// The name of the pod's node; `None` if it is not scheduled.
fn node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// For a pod that was ready: that its node is lost. The node controller then sets the condition
/// Ready to False, and leaves ContainersReady. A kubelet sets both, unless there are readiness
/// gates.
fn lost_node(pod: &Pod, status: &PodStatus) -> Option<String> {
    let has_gates = pod.spec.iter().any(|spec| spec.readiness_gates.iter().flatten().next().is_some());
    let is = |r#type, expected| condition(status, r#type).is_some_and(|(status, ..)| status == expected);
    let is_lost = !has_gates && is("ContainersReady", "True") && is("Ready", "False");
    node(pod).filter(|_| is_lost).map(|node| format!("node {node} is not ready, and the pod was"))
}

/// By the name of a container or port, so that sidecars from other templates count as well.
fn has_sidecar(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut ports = all.flat_map(|container| container.ports.iter().flatten());
    sidecar(spec).is_some() || ports.any(|port| port.name.as_deref() == Some(QUEUE_PROXY))
}

fn empty_status(pod: &Pod) -> StartingPod {
    StartingPod { name: pod.metadata.name.clone().unwrap_or_default(), ..StartingPod::default() }
}

/// Status, reason and message.
fn condition<'a>(status: &'a PodStatus, r#type: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let condition = status.conditions.iter().flatten().find(|condition| condition.type_ == r#type)?;
    let text = |text: &'a Option<String>| text.as_deref().unwrap_or_default();
    Some((condition.status.as_str(), text(&condition.reason), text(&condition.message)))
}

fn starting_container(status: &ContainerStatus) -> StartingContainer {
    let state = status.state.clone().unwrap_or_default();
    let succeeded = state.terminated.as_ref().is_some_and(|end| end.exit_code == 0);
    let waiting = state.waiting.as_ref().map(|waiting| {
        let text = |text: &Option<String>| truncate(text.as_deref().unwrap_or_default());
        (text(&waiting.reason), text(&waiting.message))
    });
    StartingContainer {
        name: status.name.clone(),
        waiting,
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
        last_end: status.last_state.as_ref().and_then(|last| describe_last_end(status, last)),
        done: status.ready || succeeded,
    }
}

fn describe_last_end(status: &ContainerStatus, last: &ContainerState) -> Option<String> {
    let terminated = last.terminated.as_ref()?;
    let reason = terminated.reason.as_deref().unwrap_or("Ended");
    let exit_code = terminated.exit_code;
    Some(format!("container {} ended with exit code {exit_code} ({reason})", status.name))
}

fn truncate(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn readiness(status: Value) -> PodReadiness {
        readiness_with(&["app", "queue-proxy"], status)
    }

    fn readiness_with(containers: &[&str], status: Value) -> PodReadiness {
        pod_readiness(&pod_with(containers, status), SidecarMode::Required)
    }

    fn pod_with(containers: &[&str], status: Value) -> Pod {
        let containers: Vec<Value> = containers.iter().map(|name| json!({"name": name})).collect();
        let pod =
            json!({"metadata": {"name": "web-1"}, "spec": {"containers": containers}, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn starting(status: Value) -> StartingPod {
        match readiness(status) {
            PodReadiness::Starting(starting) => starting,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn distinguishes_ready_ended_and_starting_pods() {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        assert_eq!(readiness(ready.clone()), PodReadiness::Ready);
        assert_eq!(readiness_with(&["app"], ready.clone()), PodReadiness::ReadyWithoutSidecar);
        assert_eq!(pod_readiness(&pod_with(&["app"], ready), SidecarMode::None), PodReadiness::Ready);
        assert_eq!(readiness(json!({"phase": "Failed", "reason": "Evicted"})), PodReadiness::Ended);
        let ending =
            json!({"metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}});
        let ending = serde_json::from_value(ending).unwrap();
        assert_eq!(pod_readiness(&ending, SidecarMode::Required), PodReadiness::Ended);
        assert_eq!(
            starting(json!({"phase": "Pending"})),
            StartingPod { name: "web-1".into(), ..StartingPod::default() }
        );
    }

    #[test]
    fn distinguishes_unacknowledged_pods_and_those_of_lost_nodes() {
        let with = |gates: Value, status: Value| {
            let spec = json!({"nodeName": "node1", "containers": [], "readinessGates": gates});
            let pod = json!({"metadata": {"name": "web-1"}, "spec": spec, "status": status});
            pod_readiness(&serde_json::from_value(pod).unwrap(), SidecarMode::None)
        };
        let lost = |gates, ready, containers| {
            let started = json!({"startTime": "2026-01-01T00:00:00Z", "conditions": [
                {"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": containers}]});
            match with(gates, started) {
                PodReadiness::Starting(pod) => pod.unresponsive_node.is_some(),
                other => panic!("{other:?}"),
            }
        };
        let scheduled = json!({"conditions": [{"type": "PodScheduled", "status": "True"}]});
        assert!(
            matches!(with(Value::Null, scheduled), PodReadiness::Unacknowledged { node, .. } if node == "node1")
        );
        assert!(lost(Value::Null, "False", "True"));
        assert!(!lost(Value::Null, "False", "False"), "the kubelet reports that a container is not ready");
        assert!(!lost(json!([{"conditionType": "example.com/a"}]), "False", "True"), "a gate is closed");
    }

    #[test]
    fn reads_scheduler_message_of_unschedulable_pod() {
        let scheduled = |reason: &str| {
            let message = "0/1 nodes are available: 1 Insufficient memory.";
            starting(json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}))
        };
        assert!(scheduled("Unschedulable").unschedulable.unwrap().contains("Insufficient memory"));
        assert_eq!(scheduled("SchedulingGated").unschedulable, None);
    }

    #[test]
    fn reads_waiting_reason_and_last_end_of_containers() {
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
