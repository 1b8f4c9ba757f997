//! The sidecar: whether the template requests it and fits it, the pods have it, and it is the
//! installed one.

use autoscaler::api::sidecar;
use autoscaler::findings::reasons::CheckReason;
use autoscaler::findings::sidecar::{is_labelled, missing, sidecar_of, written};
use autoscaler::findings::{SidecarConflict, sidecar::Sidecar};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::check::cluster_objects::tag_of;
use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// What the zero-scaler reports of the template. Pods on the network of their nodes work where they
/// fit.
pub(super) fn conflicts(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(template) = workload.template.as_ref().filter(|_| workload.has_sidecar) else {
        return Vec::new();
    };
    if sidecar_of(template) == Sidecar::Missing {
        return vec![Finding::of_problem(workload.target_name(), missing(None))];
    }
    let finding = |conflict: SidecarConflict| {
        let finding = Finding::of_problem(workload.target_name(), conflict.problem());
        if matches!(conflict, SidecarConflict::HostNetwork(_)) { finding.as_warning() } else { finding }
    };
    SidecarConflict::all(template).into_iter().map(finding).collect()
}

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    if workload.has_sidecar {
        pod_without(workload).into_iter().chain(outdated(workload)).collect()
    } else {
        // Until the last pod without a sidecar has gone, activators serve all pods.
        pod_without(workload).map(Finding::as_warning).or_else(|| unused(workload)).into_iter().collect()
    }
}

/// The zero-scaler reports one that is ready alone.
fn pod_without(workload: &WorkloadObjects) -> Option<Finding> {
    let template = workload.template.as_ref()?;
    let without = |pod: &&Pod| pod.spec.as_ref().is_some_and(|spec| sidecar(spec).is_none());
    let pod = workload.pods.iter().find(without).filter(|_| sidecar_of(template) != Sidecar::Missing)?;
    Some(Finding::of_problem(workload.target_name(), missing(Some(&pod.name_any()))))
}

/// The conflict of a label and an annotation `"false"`: activators lead to the app, past the
/// sidecar.
fn unused(workload: &WorkloadObjects) -> Option<Finding> {
    is_labelled(workload.template.as_ref()?).then(|| {
        let problem = format!(
            "its pods are labelled for the sidecar, and workload {} has none: requests bypass the sidecar, \
             and its limits have no effect",
            workload.key
        );
        Finding::warning(workload.target_name(), CheckReason::SidecarUnused, problem)
    })
}

/// Compares tags, because a mirror has another name. A sidecar that is written by hand has the tag
/// of its author.
fn outdated(workload: &WorkloadObjects) -> Option<Finding> {
    let installed = tag_of(workload.shared.sidecar_image.as_deref()?)?;
    let tag = |pod: &Pod| -> Option<String> {
        let tag = tag_of(sidecar(pod.spec.as_ref()?)?.image.as_deref()?)?;
        (tag != installed).then(|| tag.to_owned())
    };
    let mut other = workload.pods.iter().filter_map(|pod| Some((pod, tag(pod)?)));
    let (pod, tag) = other.next().filter(|_| workload.template.as_ref().and_then(written).is_none())?;
    let problem =
        format!("the sidecar of pod {} has image tag {tag}, and new pods get {installed}", pod.name_any());
    Some(Finding::warning(workload.target_name(), CheckReason::SidecarOutdated, problem))
}
