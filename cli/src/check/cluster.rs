//! The checks on what concerns all workloads.

mod admission;
mod certificates;
mod custom_resources;
mod deployments;
mod metrics_apis;
mod version;

use super::cluster_objects::ClusterObjects;
use super::finding::Finding;
use super::workload_objects::WorkloadObjects;

/// Findings before an installation: nothing of Rouse is expected.
pub fn before_installation(cluster: &ClusterObjects) -> Vec<Finding> {
    let mut findings: Vec<Finding> = version::check(cluster).into_iter().collect();
    findings.extend(metrics_apis::other_owners(cluster));
    findings
}

/// Findings about an installation.
pub fn after_installation(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = version::check(cluster).into_iter().collect();
    findings.extend(custom_resources::check(cluster));
    findings.extend(deployments::check(cluster));
    findings.extend(metrics_apis::check(cluster, workloads));
    findings.extend(certificates::check(cluster));
    findings.extend(admission::check(cluster, workloads));
    findings
}
