//! The status of a workload. Pure: an observation, a plan and the result of the write in, a status
//! out.
//!
//! `status.phase`, `reason` and `message` summarize the conditions ([`super::summary`]). Times are
//! left out of all messages, because each change of the status is a write to the API server.

use autoscaler::api::{
    PodAutoscalerStatus, Route, Scaler, ScheduleStatus, StartFailure, WorkloadPhase, condition,
};
use autoscaler::contract::NO_METRIC;
use autoscaler::contract::quantity::{format_milli, milli_from_f64};
use autoscaler::findings::Problem;
use autoscaler::findings::service::ServiceFields;
use autoscaler::routing::sks_mode::SksMode;
use autoscaler::scaling::readable::CompactNumber;
use autoscaler::scaling::scale_to_zero::ActivePhase;
use autoscaler::scaling::workload_state::WorkloadState;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::decide::{ACTIVATOR_IN_PATH, Plan, min_ready};
use super::observe::{HpaState, ObservedWorkload};
use super::ready::{PODS_STARTING, READY, paused, ready};
use super::scale_write::ScaleWriteResult;
use super::{degraded, learning, savings, summary};
use crate::activators::path_verification::PathError;
use crate::cache::last_activation::ACTIVE;
use crate::kubernetes::conditions::{self, ConditionContent, INITIALIZED, is_true, set};
use crate::kubernetes::reasons::Reason;
use crate::scaling::scale_targets::ScaleError;

const HPA_ACCEPTED: &str = "HPAAccepted";
/// Present while the wanted pods cannot start.
const PODS_CAN_START: &str = "PodsCanStart";

/// The whole status.
pub(super) fn status(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
    verification: Option<&Result<(), PathError>>,
) -> PodAutoscalerStatus {
    let before = observed.autoscaler.status.clone().unwrap_or_default();
    let size = match written {
        Ok(ScaleWriteResult::Written(size)) => Some(*size),
        _ => None,
    };
    let replicas = size.or(observed.scale.as_ref().ok().map(|s| s.replicas)).or(before.replicas);
    let mode = observed.serverless_service.as_ref().and_then(|s| s.status.as_ref()?.mode);
    let conditions = conditions(observed, plan, written, verification, before.conditions);
    let summary = summary::summary(observed, plan, replicas, &conditions);
    PodAutoscalerStatus {
        observed_generation: observed.autoscaler.metadata.generation,
        state: replicas.map(|replicas| state(observed, plan, replicas)),
        phase: Some(summary.phase),
        reason: Some(summary.reason),
        message: Some(summary.message).filter(|message| !message.is_empty()),
        target: target(observed),
        route: mode.map(route),
        replicas,
        desired_replicas: observed.decision.as_ref().map(|d| i32::try_from(d.desired).unwrap_or(i32::MAX)),
        mode,
        schedule: observed.scheduled.map(ScheduleStatus::from),
        savings: savings::status(observed, plan, replicas),
        learning: learning::status(observed),
        conditions,
    }
}

/// The status of a workload with an object that the API server refuses. Its condition keeps the
/// time since when it is not Ready.
pub(super) fn refused(
    observed: &ObservedWorkload,
    mut status: PodAutoscalerStatus,
    message: &str,
) -> PodAutoscalerStatus {
    let problem = Problem::with_usual_fix(Reason::WriteRefused, message);
    let before = condition(conditions::of(&observed.autoscaler), READY).cloned();
    status.conditions.retain(|condition| condition.type_ != READY);
    status.conditions.extend(before);
    let content = ConditionContent::no(problem.reason, problem.message());
    set(&mut status.conditions, READY, content, observed.autoscaler.metadata.generation, observed.now);
    PodAutoscalerStatus {
        phase: Some(WorkloadPhase::Degraded),
        reason: Some(problem.reason.as_str().to_owned()),
        message: Some(problem.message()),
        ..status
    }
}

fn conditions(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
    verification: Option<&Result<(), PathError>>,
    mut conditions: Vec<Condition>,
) -> Vec<Condition> {
    let (generation, now) = (observed.autoscaler.metadata.generation, observed.now);
    let initialized = is_true(&conditions, INITIALIZED);
    let mut always = |r#type, content| set(&mut conditions, r#type, content, generation, now);
    always(ACTIVE, active(observed, plan));
    always(ACTIVATOR_IN_PATH, activator_in_path(observed, verification));
    always(READY, ready(observed, plan, written));
    let optional = [
        (degraded::DEGRADED, degraded::degraded(observed)),
        (PODS_CAN_START, pods_can_start(observed)),
        (HPA_ACCEPTED, hpa_accepted(observed)),
    ];
    for (r#type, content) in optional {
        match content {
            Some(content) => set(&mut conditions, r#type, content, generation, now),
            None => conditions.retain(|condition| condition.type_ != r#type),
        }
    }
    set(&mut conditions, INITIALIZED, self::initialized(observed, plan, initialized), generation, now);
    conditions
}

fn state(observed: &ObservedWorkload, plan: &Plan, replicas: i32) -> WorkloadState {
    let wanted = u32::from(plan.activation.phase != ActivePhase::Inactive);
    WorkloadState::of(observed.settings.zero.reachability, u32::try_from(replicas).unwrap_or(0), Some(wanted))
}

fn route(mode: SksMode) -> Route {
    match mode {
        SksMode::Proxy => Route::Activators,
        SksMode::Serve => Route::Pods,
    }
}

/// The metric's name and the value that one pod should carry, as `kubectl get hpa` prints its
/// targets.
fn target(observed: &ObservedWorkload) -> Option<String> {
    let spec = &observed.autoscaler.spec;
    if spec.scaler == Scaler::Other {
        return Some(NO_METRIC.to_owned());
    }
    let metric = spec.metric_name(&observed.settings).as_str();
    // Where the user named none, the one that learning replaced means nothing to them.
    if !spec.names_target(&observed.settings)
        && let Some(learned) = learning::target_in_force(observed)
    {
        return Some(format!("{metric}: {} (learned)", CompactNumber(learned)));
    }
    let value = milli_from_f64(spec.target(observed.pod_limit, &observed.settings).ok()?.target)?;
    Some(format!("{metric}: {}", format_milli(value)))
}

/// True once the initial number of pods was ready; with `initial-scale: 0` no pod has to be.
fn initialized(observed: &ObservedWorkload, plan: &Plan, before: bool) -> ConditionContent {
    if min_ready(observed) == 0 {
        return ConditionContent::yes(Reason::MayStartAtZero, "");
    }
    if before || plan.activation.phase == ActivePhase::Active {
        return ConditionContent::yes(Reason::PodsWereReady, "");
    }
    ConditionContent::unknown(
        Reason::PodsNotReadyYet,
        "the target has not had its initial, or smallest, number of ready pods yet",
    )
}

/// Events for what became wrong since the status `before`.
pub(super) fn warnings(
    observed: &ObservedWorkload,
    before: Option<&PodAutoscalerStatus>,
    after: &PodAutoscalerStatus,
) -> Vec<(Reason, String)> {
    let is = |r#type: &str| condition(&after.conditions, r#type);
    let changed = |r#type: &str| {
        let was = before.and_then(|b| condition(&b.conditions, r#type));
        is(r#type).is_some_and(|now| {
            was.is_none_or(|was| (&was.status, &was.message) != (&now.status, &now.message))
        })
    };
    let mut warnings = Vec::new();
    if let Some(ready) = is(READY).filter(|c| c.status == "False" && changed(READY)) {
        warnings.push(match is(PODS_CAN_START).filter(|_| ready.reason == Reason::CannotStart.as_str()) {
            Some(cause) => (Reason::CannotStart, format!("{}: {}", cause.reason, cause.message)),
            None => (Reason::NotReady, format!("{}: {}", ready.reason, ready.message)),
        });
    }
    // Invalid settings of an HPA are an event on the HPA.
    if observed.hpa.is_none() && changed(degraded::DEGRADED) {
        warnings.extend(degraded::bad_settings(observed).map(|message| (Reason::BadSetting, message)));
    }
    warnings
}

fn active(observed: &ObservedWorkload, plan: &Plan) -> ConditionContent {
    if plan.paused {
        return paused(observed);
    }
    let reason = Reason::from(plan.activation.reason);
    let why = plan.why.map(|why| summary::why_text(observed, why)).unwrap_or_default();
    match plan.activation.phase {
        ActivePhase::Active => ConditionContent::yes(reason, why),
        ActivePhase::Activating => ConditionContent::unknown(reason, PODS_STARTING),
        ActivePhase::Inactive => ConditionContent::no(reason, why),
    }
}

fn activator_in_path(
    observed: &ObservedWorkload,
    verification: Option<&Result<(), PathError>>,
) -> ConditionContent {
    let verified = || ConditionContent::yes(Reason::Verified, "activators answer at the Service's address");
    match (verification, observed.proxied_since()) {
        (Some(Ok(())), _) => verified(),
        (Some(Err(error)), _) => ConditionContent::no(Reason::NotVerified, error.to_string()),
        (None, None) => {
            match observed.service.as_ref().and_then(|it| ServiceFields::of(it).keeps_above_zero()) {
                Some(problem) => ConditionContent::no(problem.reason, problem.message()),
                None => {
                    ConditionContent::no(Reason::NotProxied, "no activator is in the Service's endpoints")
                }
            }
        }
        // A verification holds for as long as the activators stay in the endpoints.
        (None, Some(_)) if is_true(conditions::of(&observed.autoscaler), ACTIVATOR_IN_PATH) => verified(),
        (None, Some(_)) => ConditionContent::unknown(
            Reason::NotVerifiedYet,
            "activators are in the endpoints; the path has not been probed yet",
        ),
    }
}

fn pods_can_start(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let failure = observed.start_failure.as_ref()?;
    let StartFailure { reason, message, pod, .. } = failure;
    let held = if failure.given_up { "refused with 503" } else { "still held" };
    let pod = if pod.is_empty() { String::new() } else { format!("pod {pod}: ") };
    let message = format!("{pod}{reason}: {message}; requests are {held}");
    Some(ConditionContent::no(failure.cause.into(), message))
}

fn hpa_accepted(observed: &ObservedWorkload) -> Option<ConditionContent> {
    Some(match observed.hpa.as_ref()? {
        HpaState::Rejected(problem) | HpaState::Missing(problem) | HpaState::Inactive(problem) => {
            ConditionContent::no(problem.reason, problem.message())
        }
        HpaState::Accepted(advice) => match advice.first() {
            None => ConditionContent::yes(Reason::Accepted, ""),
            Some(first) => {
                let messages: Vec<String> = advice.iter().map(Problem::message).collect();
                ConditionContent::yes(first.reason, messages.join("; "))
            }
        },
    })
}
