//! Pods that do not serve: the scheduler finds no node, containers fail, or they are not ready.

use autoscaler::api::{reasons, sidecar};
use autoscaler::contract::QUEUE_PROXY;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::pod_failure::{self, PodFailure, failure};
use crate::check::workload_objects::WorkloadObjects;

/// The variable of the sidecar with the app's port.
const APP_PORT: &str = "QUEUE_PROXY_APP_PORT";

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    unplaced(workload).into_iter().chain(failing(workload)).collect()
}

fn unplaced(workload: &WorkloadObjects) -> Option<Finding> {
    let unschedulable: Vec<(&Pod, &PodCondition)> = workload
        .pods
        .iter()
        .filter_map(|pod| Some((pod, pod_failure::unschedulable(pod.status.as_ref()?)?)))
        .collect();
    let (pod, condition) = unschedulable.first()?;
    let problem = format!(
        "{} of {} pods fit on no node, such as {}: {}",
        unschedulable.len(),
        workload.pods.len(),
        pod.name_any(),
        condition.message.as_deref().unwrap_or("no message")
    );
    let fix = "add nodes, lower the requests, or correct the pod's nodeSelector, affinity or tolerations";
    Some(Finding::error(workload.target_name(), "Unschedulable", problem, fix))
}

/// The first failure of a container, or pod that does not get ready. Beside ready pods it is a
/// warning.
fn failing(workload: &WorkloadObjects) -> Option<Finding> {
    let mut failures = workload.pods.iter().filter_map(|pod| {
        let failure = failure(pod, workload.shared.now)?;
        (failure.reason != "Unschedulable").then_some((pod, failure))
    });
    let (pod, failure) = failures.next()?;
    let event = workload.namespace.last_warning("Pod", &failure.pod, "").and_then(|event| event.note.clone());
    let detail =
        event.filter(|_| failure.reason == "NotReady").map(|note| format!("; its last warning is: {note}"));
    let problem = format!("{failure}{}", detail.unwrap_or_default());
    let finding =
        Finding::error(workload.target_name(), failure.reason, problem, fix(workload, pod, &failure));
    Some(if workload.pods.iter().any(is_ready) { finding.as_warning() } else { finding })
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn fix(workload: &WorkloadObjects, pod: &Pod, failure: &PodFailure) -> String {
    let namespace = &workload.key.namespace;
    let is_sidecar = failure.container.as_deref() == Some(QUEUE_PROXY);
    match failure.reason {
        "OOMKilled" if is_sidecar => {
            "raise memoryLimit at the top of the admission policy (sidecar.resources of the chart), and \
             restart the pods"
                .to_owned()
        }
        "OOMKilled" => "raise the container's memory limit, or lower the target so that a pod gets fewer \
                        requests"
            .to_owned(),
        "CrashLoop" if is_sidecar => format!(
            "see kubectl --namespace {namespace} logs {} --container {QUEUE_PROXY}: an annotation of the \
             pods may have an invalid value (docs/reference/pods.md)",
            failure.pod
        ),
        "NotReady" => not_ready(pod, is_sidecar, namespace),
        reason => reasons::fix(reason).unwrap_or_default().to_owned(),
    }
}

/// The sidecar is ready when the app is, so it does not show which of the two is at fault.
fn not_ready(pod: &Pod, is_sidecar: bool, namespace: &str) -> String {
    let see = format!("see kubectl --namespace {namespace} describe pod {}", pod.name_any());
    let sidecar = pod.spec.as_ref().and_then(sidecar).filter(|_| is_sidecar);
    let port = sidecar.and_then(|sidecar| {
        let mut variables = sidecar.env.iter().flatten();
        variables.find(|variable| variable.name == APP_PORT)?.value.as_deref()
    });
    match port {
        Some(port) => format!(
            "let the app listen on port {port}, or name its port in the annotation \
             autoscaling.rouse.dev/app-port of the pods; {see}"
        ),
        None => format!("correct the readiness probe or the app; {see}"),
    }
}
