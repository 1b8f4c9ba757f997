//! The checks on what concerns all workloads.

mod admission;
mod certificates;
mod custom_resources;
mod deployments;
mod installed;
mod leases;
pub mod manifests;
mod metrics_apis;
mod network_policies;
mod rights;
mod settings;
pub mod shared_facts;
mod system_namespace;
mod version;

use super::cluster_objects::ClusterObjects;
use super::finding::Finding;
use super::workload_objects::WorkloadObjects;

/// Findings before an installation, when no part of Rouse exists.
pub fn before_installation(cluster: &ClusterObjects) -> Vec<Finding> {
    let mut findings: Vec<Finding> = version::check(cluster).into_iter().collect();
    findings.extend(metrics_apis::other_owners(cluster));
    findings
}

/// Findings about an installation.
pub fn after_installation(cluster: &ClusterObjects, workloads: &[WorkloadObjects]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = version::check(cluster).into_iter().collect();
    findings.extend(system_namespace::check(cluster));
    findings.extend(custom_resources::check(cluster));
    findings.extend(deployments::check(cluster));
    findings.extend(deployments::spread::check(cluster));
    findings.extend(version::skew(cluster));
    findings.extend(installed::check(cluster));
    findings.extend(network_policies::check(cluster));
    findings.extend(leases::check(cluster));
    findings.extend(settings::check(cluster, workloads));
    findings.extend(metrics_apis::check(cluster, workloads));
    findings.extend(certificates::check(cluster));
    findings.extend(admission::check(cluster, workloads));
    findings
}
