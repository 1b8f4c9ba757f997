//! Pods that the scheduler places on no node.

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let unschedulable: Vec<(&Pod, &PodCondition)> =
        workload.pods.iter().filter_map(|pod| Some((pod, unschedulable(pod)?))).collect();
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

fn unschedulable(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    })
}
