//! The checks on one workload.

pub mod conditions;
mod disruption_budgets;
mod endpoints;
mod front_doors;
mod hpa;
mod learned_target;
mod network_policies;
mod pods;
mod ports;
mod service;
mod settings;
mod sidecar;
mod target;
mod workload_list;

use super::finding::Finding;
use super::workload_objects::WorkloadObjects;
pub use hpa::unmanaged::without_workload;
pub use workload_list::workloads_of;

/// All findings on a workload, each reason once.
pub fn findings(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut findings = hpa::check(workload);
    findings.extend(target::check(workload));
    findings.extend(settings::check(workload));
    findings.extend(service::check(workload));
    findings.extend(endpoints::check(workload));
    findings.extend(front_doors::check(workload));
    findings.extend(sidecar::check(workload));
    findings.extend(ports::check(workload));
    findings.extend(network_policies::check(workload));
    findings.extend(pods::check(workload));
    findings.extend(disruption_budgets::check(workload));
    findings.extend(learned_target::check(workload));
    for reported in conditions::check(workload) {
        if findings.iter().all(|finding| finding.reason != reported.reason) {
            findings.push(reported);
        }
    }
    findings
}
