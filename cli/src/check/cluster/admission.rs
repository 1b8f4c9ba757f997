//! The admission policy that adds the sidecar, where pods are labelled for it.

use crate::check::cluster_objects::{ClusterObjects, INJECTION};
use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Option<Finding> {
    let labelled = workloads.iter().find(|workload| workload.needs_injection())?;
    if !cluster.version.can_inject() {
        let problem = format!(
            "the pods of workload {} are labelled for the sidecar, which a policy adds from Kubernetes 1.36 on",
            labelled.key
        );
        let fix = "write the sidecar into the pod template (docs/reference/sidecar-by-hand.md)";
        return Some(Finding::error("cluster", "NoInjection", problem, fix));
    }
    let fix = "kubectl apply --filename deploy/queue-proxy.yaml, or install the chart with sidecar.injection: policy; then \
               restart the pods";
    let problem =
        format!("it does not exist, so new pods get no sidecar, such as those of workload {}", labelled.key);
    if cluster.injection.is_absent() {
        let object = format!("MutatingAdmissionPolicy {INJECTION}");
        return Some(Finding::error(object, "NoInjection", problem, fix));
    }
    cluster.injection_binding.is_absent().then(|| {
        let object = format!("MutatingAdmissionPolicyBinding {INJECTION}");
        Finding::error(object, "NoInjection", problem, fix)
    })
}
