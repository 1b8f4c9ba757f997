//! The state of a workload in one word, with its reason: what `kubectl get podautoscalers` prints.
//!
//! | phase | when |
//! |---|---|
//! | `Paused` | an annotation keeps the size, or another writer set 0 and scale-to-zero is off |
//! | `Degraded` | condition Ready is False, or condition Degraded is True |
//! | `Pending` | condition Ready is Unknown, because not everything was observed yet |
//! | `Waking` | pods are wanted and none, or not enough, are ready |
//! | `AtZero` | no pods, and activators hold the next request |
//! | `Active` | anything else; the reason says what keeps the workload above zero |
//!
//! The reason explains the phase. A warning never becomes the reason of a condition that is True:
//! it has the condition Degraded of its own, so READY and REASON cannot contradict each other.

use autoscaler::api::{WorkloadPhase, condition};
use autoscaler::contract::{CONFIG_MAP, SCALE_TO_ZERO};
use autoscaler::scaling::scale_to_zero::{ActivePhase, StayReason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::decide::Plan;
use super::degraded::DEGRADED;
use super::observe::{ObservedWorkload, is_of_hpa};
use super::ready::{PODS_STARTING, READY, paused};
use crate::kubernetes::reasons::Reason;

/// A workload in one word, and why.
pub(super) struct WorkloadSummary {
    pub(super) phase: WorkloadPhase,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Summarizes the conditions of a workload.
pub(super) fn summary(
    observed: &ObservedWorkload,
    plan: &Plan,
    replicas: Option<i32>,
    conditions: &[Condition],
) -> WorkloadSummary {
    let is_paused = || {
        let paused = paused(observed);
        of(WorkloadPhase::Paused, paused.reason, &paused.message)
    };
    if plan.paused {
        return is_paused();
    }
    let ready = condition(conditions, READY);
    if let Some(ready) = ready.filter(|ready| ready.status == "False") {
        return copy(WorkloadPhase::Degraded, ready);
    }
    if observed.is_paused() {
        return is_paused();
    }
    let is_activating = plan.activation.phase == ActivePhase::Activating;
    if let Some(ready) = ready.filter(|ready| ready.status == "Unknown" && !is_activating) {
        return copy(WorkloadPhase::Pending, ready);
    }
    if is_activating {
        // One reason until pods are ready, whatever else changes: a wake should not cost many
        // writes.
        return of(WorkloadPhase::Waking, Reason::PodsStarting, PODS_STARTING);
    }
    if let Some(degraded) = condition(conditions, DEGRADED) {
        return copy(WorkloadPhase::Degraded, degraded);
    }
    if replicas == Some(0) {
        return at_zero(observed);
    }
    match plan.why {
        Some(why) => of(WorkloadPhase::Active, why.into(), &why_text(observed, why)),
        None => of(WorkloadPhase::Active, Reason::ScalingToZero, "all conditions for zero hold"),
    }
}

fn at_zero(observed: &ObservedWorkload) -> WorkloadSummary {
    if observed.settings.zero.reachability.is_reachable() {
        of(WorkloadPhase::AtZero, Reason::NoTraffic, "activators hold the next request and wake the workload")
    } else {
        of(WorkloadPhase::AtZero, Reason::Retired, "the workload is marked Unreachable")
    }
}

fn of(phase: WorkloadPhase, reason: Reason, message: &str) -> WorkloadSummary {
    WorkloadSummary { phase, reason: reason.as_str().to_owned(), message: message.to_owned() }
}

fn copy(phase: WorkloadPhase, condition: &Condition) -> WorkloadSummary {
    WorkloadSummary { phase, reason: condition.reason.clone(), message: condition.message.clone() }
}

/// Why the workload is above zero; with the fix, where only a change of the configuration helps.
pub(super) fn why_text(observed: &ObservedWorkload, why: StayReason) -> String {
    match why {
        StayReason::NotAllowed if !observed.settings.zero.enabled => {
            format!(
                "scale-to-zero is off in the cluster; set enable-scale-to-zero in ConfigMap {CONFIG_MAP} to \"true\""
            )
        }
        StayReason::NotAllowed if is_of_hpa(&observed.autoscaler) => {
            format!("scale-to-zero is off; to turn it on, annotate the HPA with {SCALE_TO_ZERO}: \"true\"")
        }
        StayReason::NotAllowed => "scale-to-zero is off; to turn it on, set spec.scaleToZero".to_owned(),
        StayReason::ActivatorSilent => observed
            .silent_activators
            .clone()
            .filter(|message| !message.is_empty())
            .unwrap_or_else(|| why.message().to_owned()),
        why => match &observed.wake_check {
            Some(Err(problem)) if why == StayReason::WakeBlocked => {
                format!("{}: {}", why.message(), problem.message())
            }
            _ => why.message().to_owned(),
        },
    }
}
