//! The activation that the last reconcile wrote into the status.

use autoscaler::api::{PodAutoscaler, condition};
use autoscaler::scaling::active_condition::{ActiveCondition, ActiveReason};
use autoscaler::scaling::scale_to_zero::ActivePhase;

use crate::kubernetes::conditions;

/// Type of the condition Active.
pub(crate) const ACTIVE: &str = "Active";

/// True if the last reconcile found the workload at zero and not paused.
pub(crate) fn is_parked_at_zero(autoscaler: &PodAutoscaler) -> bool {
    let replicas = autoscaler.status.as_ref().and_then(|status| status.replicas);
    replicas == Some(0)
        && last_activation(autoscaler).is_some_and(|before| before.phase == ActivePhase::Inactive)
}

/// The activation in the Active condition. A reason outside of the table, such as `Paused`, is none.
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
