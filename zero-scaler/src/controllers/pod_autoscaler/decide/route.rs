//! Route: whether requests go through activators, and through how many.

use autoscaler::api::SksMode;
use autoscaler::routing::sks_mode;

use super::super::learning;
use super::super::observe::ObservedWorkload;

/// All activators, where the nodes with endpoints have to stay the same, whatever the pods carry.
pub(super) fn number_of_activators(observed: &ObservedWorkload) -> u32 {
    if observed.keeps_endpoints() {
        return u32::MAX;
    }
    sks_mode::number_of_activators(observed.ready, pod_capacity(observed), &observed.settings)
}

/// Pods without sidecar need activators, which limit and count, in the path of each request; those
/// with a temporary limit too.
pub(super) fn mode(observed: &ObservedWorkload, wanted: Option<u32>) -> SksMode {
    let is_limited = !observed.sidecar_mode.is_required() || learning::temporary_limit(observed).is_some();
    if is_limited || observed.keeps_endpoints() {
        return SksMode::Proxy;
    }
    let excess = observed.decision.as_ref().map(|decision| decision.excess_burst_capacity);
    sks_mode::wanted(wanted, excess, observed.ready, mode_before(observed))
}

fn mode_before(observed: &ObservedWorkload) -> Option<SksMode> {
    observed.serverless_service.as_ref().map(|sks| sks.spec.mode)
}

/// The value of the metric that one pod can carry, by the target in force; 0 if the user's is
/// invalid.
fn pod_capacity(observed: &ObservedWorkload) -> f64 {
    let spec = &observed.autoscaler.spec;
    let Ok(given) = spec.target(observed.pod_limit, &observed.settings) else { return 0.0 };
    let learned = learning::target_in_force(observed);
    learned.map_or(given, |learned| given.with_target(learned, spec.limit(observed.pod_limit))).total
}
