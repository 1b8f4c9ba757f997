//! The sidecar: whether the template requests it and the pods have it.

use autoscaler::contract::INJECT_LABEL;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::workload_objects::{WorkloadObjects, is_labelled, sidecar_of};

const REASON: &str = "SidecarMissing";

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let template = workload.template.as_ref().filter(|_| workload.has_sidecar)?;
    let is_written = template.spec.as_ref().is_some_and(|spec| sidecar_of(spec).is_some());
    let (namespace, target) = (&workload.key.namespace, workload.target_argument());
    if !is_labelled(template) && !is_written {
        let problem = "its pod template has no sidecar, so requests are not counted";
        let fix = format!(
            "label the pod template with {INJECT_LABEL}: \"true\" (kubectl rouse init {target} --namespace {namespace} prints \
             the change), or annotate the HPA with autoscaling.rouse.dev/sidecar: \"false\""
        );
        return Some(Finding::error(workload.target_name(), REASON, problem, fix));
    }
    let mut without =
        workload.pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| sidecar_of(spec).is_none()));
    let pod = without.next()?;
    let problem = format!(
        "pod {} has no container queue-proxy, so it gets no requests; it is older than the label or than Rouse, or was \
         created without the admission policy",
        pod.name_any()
    );
    let fix = format!(
        "kubectl apply --filename deploy/queue-proxy.yaml, then kubectl --namespace {namespace} rollout restart {target}"
    );
    Some(Finding::error(workload.target_name(), REASON, problem, fix))
}
