//! The checks on one workload.

pub mod conditions;
mod front_doors;
mod hpa;
mod learned_target;
mod namespace_objects;
mod network_policies;
mod pods;
mod ports;
mod selection;
mod service;
mod sidecar;

use super::finding::Finding;
use super::workload_objects::WorkloadObjects;
pub use namespace_objects::{NamespaceObjects, workloads_of};

/// All findings on a workload, each reason once.
pub fn findings(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut findings = hpa::check(workload);
    findings.extend(service::check(workload));
    findings.extend(front_doors::check(workload));
    findings.extend(sidecar::check(workload));
    findings.extend(ports::check(workload));
    findings.extend(network_policies::check(workload));
    findings.extend(pods::check(workload));
    findings.extend(learned_target::check(workload));
    for reported in conditions::check(workload) {
        if findings.iter().all(|finding| finding.reason != reported.reason) {
            findings.push(reported);
        }
    }
    findings
}
