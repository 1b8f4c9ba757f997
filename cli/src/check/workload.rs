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

/// All findings on a workload.
///
/// What the zero-scaler reports is shown as it is. What it would report is computed by the same
/// functions where it does not run or has not reconciled the workload.
pub fn findings(workload: &WorkloadObjects) -> Vec<Finding> {
    let mut reported = conditions::check(workload);
    let mut findings = Vec::new();
    if !workload.is_reconciled() {
        findings.extend(hpa::rejected(workload));
        findings.extend(target::absent(workload));
        findings.extend(service::unusable(workload));
        findings.extend(sidecar::conflicts(workload));
        reported.retain(|it| findings.iter().all(|computed| computed.reason != it.reason));
    }
    let mut outside = hpa::check(workload);
    outside.extend(target::check(workload));
    outside.extend(settings::check(workload));
    outside.extend(service::check(workload));
    outside.extend(endpoints::check(workload));
    outside.extend(front_doors::check(workload));
    outside.extend(sidecar::check(workload));
    outside.extend(ports::check(workload));
    outside.extend(network_policies::check(workload));
    outside.extend(pods::check(workload));
    outside.extend(disruption_budgets::check(workload));
    outside.extend(learned_target::check(workload));
    findings.append(&mut reported);
    outside.retain(|it| findings.iter().all(|known| known.reason != it.reason));
    findings.append(&mut outside);
    let target = workload.target_argument();
    findings.into_iter().map(|finding| finding.of_target(&target)).collect()
}
