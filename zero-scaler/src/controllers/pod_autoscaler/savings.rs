//! The account of savings in the status of a workload. Pure.

use autoscaler::api::SavingsStatus;
use autoscaler::scaling::savings::{Savings, SavingsObservation};

use super::decide::{Plan, allowed};
use super::observe::ObservedWorkload;

/// The account after this reconcile; `None` if the workload may not be at zero and never was.
pub(super) fn status(
    observed: &ObservedWorkload,
    plan: &Plan,
    replicas: Option<i32>,
) -> Option<SavingsStatus> {
    let before = observed.autoscaler.status.as_ref().and_then(|status| status.savings.as_ref());
    let Some(replicas) = replicas.and_then(|replicas| u32::try_from(replicas).ok()) else {
        return before.cloned();
    };
    if before.is_none() && !allowed(observed) {
        return None;
    }
    let now = SavingsObservation {
        now: observed.now.as_millisecond(),
        replicas,
        wakes_on_request: allowed(observed) && !plan.paused,
        ready: observed.ready,
        requests: observed.footprint.requests,
        grace_seconds: observed.footprint.grace_seconds,
    };
    Some(match before {
        None => Savings::new(&now).into(),
        Some(before) => Savings::from(before).after(&now).into(),
    })
}
