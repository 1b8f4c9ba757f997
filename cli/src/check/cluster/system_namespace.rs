//! The namespace of the installation.

use autoscaler::findings::reasons::CheckReason;

use crate::check::cluster_objects::ClusterObjects;
use crate::check::finding::Finding;

pub(super) fn check(cluster: &ClusterObjects) -> Option<Finding> {
    let namespace = cluster.system.found()?;
    namespace.metadata.deletion_timestamp.as_ref()?;
    let problem = "it is being deleted: workloads are woken, and Rouse ends";
    let object = format!("Namespace {}", cluster.system_namespace);
    Some(Finding::error(object, CheckReason::Terminating, problem))
}
