//! A mesh that refuses activators: its pods require mTLS, and activators have none.

use autoscaler::findings::reasons::CheckReason;

use crate::check::finding::Finding;
use crate::check::peer_authentication::{is_in_mesh, strict};
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Option<Finding> {
    let labels = workload.pod_labels()?;
    if workload.shared.activators_in_mesh || !workload.pods.iter().any(is_in_mesh) {
        return None;
    }
    let policy = strict(&workload.namespace.peer_authentications, &workload.key.namespace, labels)?;
    let problem = format!(
        "it requires mTLS of the pods of {}: they refuse activators, so a request that wakes the workload fails",
        workload.target_name()
    );
    Some(Finding::error(&policy.object, CheckReason::MeshStrict, problem))
}
