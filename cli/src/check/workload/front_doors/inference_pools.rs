//! InferencePools: gateways that send requests to the pods past the Service.

use autoscaler::findings::inference_pool::{InferencePool, KIND};
use autoscaler::findings::reasons::Reason;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// A pool with counted requests does no harm to a workload that always has a pod.
pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(labels) = workload.pod_labels() else { return Vec::new() };
    let pools = workload.namespace.inference_pools.iter().filter(|pool| pool.selects(labels));
    pools.filter_map(|pool| finding(workload, pool)).collect()
}

fn finding(workload: &WorkloadObjects, pool: &InferencePool) -> Option<Finding> {
    let is_counted = workload.has_sidecar && pool.leads_to(workload.sidecar_ports().traffic);
    let effect = match (is_counted, workload.goes_to_zero()) {
        (true, false) => return None,
        (true, true) => "do not wake the workload, which stays above zero",
        (false, false) => "are not counted",
        (false, true) => "are not counted, and do not wake the workload, which stays above zero",
    };
    let target = workload.target_name();
    let problem = format!("it selects the pods of {target}: its requests pass the Service and {effect}");
    let object = format!("{KIND} {}/{}", workload.key.namespace, pool.name);
    Some(Finding::warning(object, Reason::InferencePoolBypass, problem))
}
