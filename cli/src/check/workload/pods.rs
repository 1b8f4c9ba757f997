//! Pods that do not serve: the scheduler finds no node, containers fail, or they are not ready.

use std::collections::HashSet;

use autoscaler::api::app_port;
use autoscaler::contract::QUEUE_PROXY;
use autoscaler::findings::reasons::CheckReason;
use k8s_openapi::api::core::v1::Pod;

use crate::check::finding::Finding;
use crate::check::pod_failure::{PodFailure, failure};
use crate::check::workload_objects::WorkloadObjects;

/// The first pod of each failure. Beside ready pods it is a warning.
pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let failures: Vec<(&Pod, PodFailure)> =
        workload.pods.iter().filter_map(|pod| Some((pod, failure(pod, workload.shared.now)?))).collect();
    let has_ready = workload.pods.iter().any(is_ready);
    let mut seen = HashSet::new();
    let first = failures.iter().filter(|(_, failure)| seen.insert(failure.reason.reason));
    let finding = |(pod, failure): &(&Pod, PodFailure)| {
        let same = failures.iter().filter(|(_, other)| other.reason == failure.reason).count();
        let detail = detail(workload, pod, failure);
        let problem = format!("{failure} ({same} of {} pods){detail}", workload.pods.len());
        let finding = Finding::error(workload.target_name(), failure.reason, problem);
        let container = failure.container.as_deref().unwrap_or_default();
        let fix = finding.fix.replace("POD", &failure.pod).replace("CONTAINER", container);
        let finding = finding.with_fix(fix);
        if has_ready { finding.as_warning() } else { finding }
    };
    first.map(finding).collect()
}

/// Of a pod that is only not ready: where its app has to listen, and its last warning. The sidecar
/// is ready when the app is, so it does not show which of the two is at fault.
fn detail(workload: &WorkloadObjects, pod: &Pod, failure: &PodFailure) -> String {
    if failure.reason != CheckReason::PodNotReady.into() {
        return String::new();
    }
    let is_sidecar = failure.container.as_deref() == Some(QUEUE_PROXY);
    let port = pod.spec.as_ref().and_then(app_port).filter(|_| is_sidecar);
    let port = port.map(|port| format!("; the sidecar expects the app to listen on port {port}"));
    let event = workload.namespace.last_warning("Pod", &failure.pod, "").and_then(|it| it.note.as_ref());
    let event = event.map(|note| format!("; its last warning is: {note}"));
    port.into_iter().chain(event).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
