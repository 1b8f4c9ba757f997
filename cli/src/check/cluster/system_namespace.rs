//! The namespace of the installation.

use crate::check::cluster_objects::ClusterObjects;
use crate::check::finding::Finding;

pub(super) fn check(cluster: &ClusterObjects) -> Option<Finding> {
    let namespace = cluster.system.found()?;
    namespace.metadata.deletion_timestamp.as_ref()?;
    let problem = "it is being deleted: workloads are woken, and Rouse ends";
    let fix = "when the deletion has ended, install Rouse again: kubectl apply -k deploy, or the chart";
    Some(Finding::error(format!("Namespace {}", cluster.system_namespace), "Terminating", problem, fix))
}
