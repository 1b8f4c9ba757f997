//! The sidecar: whether the template requests it and fits it, the pods have it, and it is the
//! installed one.

use autoscaler::api::{SidecarConflict, sidecar};
use autoscaler::contract::{GROUP, INJECT_LABEL};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::ResourceExt;

use crate::check::cluster_objects::tag_of;
use crate::check::finding::Finding;
use crate::check::workload_objects::{WorkloadObjects, has_written_sidecar, is_labelled};

const REASON: &str = "SidecarMissing";

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(template) = &workload.template else { return Vec::new() };
    if !workload.has_sidecar {
        return unused(workload, template).into_iter().collect();
    }
    let missing = missing(workload, template);
    missing.into_iter().chain(outdated(workload, template)).chain(conflicts(workload, template)).collect()
}

fn missing(workload: &WorkloadObjects, template: &PodTemplateSpec) -> Option<Finding> {
    let (namespace, target) = (&workload.key.namespace, workload.target_argument());
    if !is_labelled(template) && !has_written_sidecar(template) {
        let problem = "its pod template has no sidecar, so requests are not counted";
        let fix = format!(
            "label the pod template with {INJECT_LABEL}: \"true\" (kubectl rouse init {target} --namespace \
             {namespace} prints the change), or annotate the HPA with autoscaling.rouse.dev/sidecar: \
             \"false\""
        );
        return Some(Finding::error(workload.target_name(), REASON, problem, fix));
    }
    let mut without =
        workload.pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| sidecar(spec).is_none()));
    let pod = without.next()?;
    let problem = format!(
        "pod {} has no container queue-proxy, so it gets no requests; it is older than the label or than \
         Rouse, or was created while neither the admission policy nor the webhook added one",
        pod.name_any()
    );
    let fix = format!("kubectl --namespace {namespace} rollout restart {target}");
    Some(Finding::error(workload.target_name(), REASON, problem, fix))
}

/// The conflict of a label and an annotation: activators lead to the app, past the sidecar.
fn unused(workload: &WorkloadObjects, template: &PodTemplateSpec) -> Option<Finding> {
    is_labelled(template).then(|| {
        let problem = format!(
            "its pods are labelled for the sidecar, and workload {} has none: requests bypass the sidecar, \
             and its limits have no effect",
            workload.key
        );
        let fix = format!(
            "remove the label {INJECT_LABEL}, or the annotation {GROUP}/sidecar (spec.sidecar of a \
                           PodAutoscaler)"
        );
        Finding::warning(workload.target_name(), "SidecarUnused", problem, fix)
    })
}

/// Compares tags, because a mirror has another name. A sidecar that is written by hand has the tag
/// of its author.
fn outdated(workload: &WorkloadObjects, template: &PodTemplateSpec) -> Option<Finding> {
    let installed = tag_of(workload.shared.sidecar_image.as_deref()?)?;
    let tag = |pod: &Pod| -> Option<String> {
        let tag = tag_of(sidecar(pod.spec.as_ref()?)?.image.as_deref()?)?;
        (tag != installed).then(|| tag.to_owned())
    };
    let mut other = workload.pods.iter().filter_map(|pod| Some((pod, tag(pod)?)));
    let (pod, tag) = other.next().filter(|_| !has_written_sidecar(template))?;
    let problem =
        format!("the sidecar of pod {} has image tag {tag}, and new pods get {installed}", pod.name_any());
    let fix = format!(
        "kubectl --namespace {} rollout restart {}",
        workload.key.namespace,
        workload.target_argument()
    );
    Some(Finding::warning(workload.target_name(), "SidecarOutdated", problem, fix))
}

/// Pods on the network of their nodes work where they fit.
fn conflicts(workload: &WorkloadObjects, template: &PodTemplateSpec) -> impl Iterator<Item = Finding> {
    SidecarConflict::all(template).into_iter().map(|conflict| {
        let reason = conflict.reason();
        let finding =
            Finding::error(workload.target_name(), reason.as_str(), conflict.problem(), conflict.fix());
        if matches!(conflict, SidecarConflict::HostNetwork(_)) { finding.as_warning() } else { finding }
    })
}
