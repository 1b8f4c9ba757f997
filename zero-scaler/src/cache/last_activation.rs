//! The activation that the last reconcile wrote into the status of a PodAutoscaler.

use autoscaler::api::{PodAutoscaler, condition};
use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason};
use autoscaler::scaling::scale_to_zero::ActivePhase;

use crate::kubernetes::conditions;

/// Type of the condition Active.
pub(crate) const ACTIVE: &str = "Active";

/// True if the workload was at zero and not paused at the last reconcile.
pub(crate) fn is_parked_at_zero(autoscaler: &PodAutoscaler) -> bool {
    let replicas = autoscaler.status.as_ref().and_then(|status| status.replicas);
    replicas == Some(0) && may_be_at_zero(autoscaler)
}

/// True if the workload was on its way to zero: its size is written before the status that has it.
pub(crate) fn may_be_at_zero(autoscaler: &PodAutoscaler) -> bool {
    last_activation(autoscaler).is_some_and(|before| before.phase == ActivePhase::Inactive)
}

/// The activation in condition Active; `None` for other reasons, such as `Paused`.
pub(crate) fn last_activation(autoscaler: &PodAutoscaler) -> Option<ActiveCondition> {
    let active = condition(conditions::of(autoscaler), ACTIVE)?;
    let reason = ActiveReason::parse(&active.reason)?;
    let phase = match active.status.as_str() {
        "True" => ActivePhase::Active,
        "False" => ActivePhase::Inactive,
        _ => ActivePhase::Activating,
    };
    Some(ActiveCondition { phase, reason })
}
