//! The condition Ready: requests of the workload are served, at zero by activators that hold them.

use autoscaler::api::{SelectorSource, condition};
use autoscaler::contract::PROTOCOL;
use autoscaler::findings::Problem;
use autoscaler::findings::sidecar::{self, Sidecar};
use autoscaler::scaling::scale_to_zero::ActivePhase;

use super::decide::Plan;
use super::observe::{HpaState, ObservedWorkload};
use super::scale_write::ScaleWriteResult;
use crate::controllers::serverless_service;
use crate::kubernetes::conditions::{self, ConditionContent};
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::is_managed;
use crate::pods::pod_selection::PodSelection;
use crate::pods::start_watch::UnusablePod;
use crate::scaling::scale_targets::ScaleError;

/// The condition's type.
pub(super) const READY: &str = "Ready";

/// Message while pods start.
pub(super) const PODS_STARTING: &str = "pods are wanted and not ready yet";

/// Why the size stays as it is, with the end of a pause that has one.
pub(super) fn paused(observed: &ObservedWorkload) -> ConditionContent {
    if !observed.is_paused() {
        let message = "replicas is 0 and scale-to-zero is off; requests get 503 until replicas is at least 1";
        return ConditionContent::no(Reason::Paused, message);
    }
    let until = observed.settings.scale.pause;
    let until = until.end().map_or_else(String::new, |_| format!(" until {until}"));
    let is_at_zero = observed.scale.as_ref().is_ok_and(|scale| scale.replicas <= 0);
    let effect = if is_at_zero { "requests get 503" } else { "nothing of Rouse changes the size" };
    ConditionContent::no(
        Reason::PausedByAnnotation,
        format!("annotation paused is in force{until}: {effect}"),
    )
}

/// The condition: the first problem found, or what serves requests now.
pub(super) fn ready(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
) -> ConditionContent {
    target_problem(observed, plan)
        .or_else(|| metric_target_problem(observed))
        .or_else(|| hpa_problem(observed))
        .or_else(|| failed_write(observed, plan, written))
        .or_else(|| service_problem(observed))
        .or_else(|| selection_problem(observed))
        .or_else(|| sidecar_problem(observed))
        .unwrap_or_else(|| served_by(observed, plan))
}

fn target_problem(observed: &ObservedWorkload, plan: &Plan) -> Option<ConditionContent> {
    match &observed.scale {
        Err(error) => return Some(ConditionContent::no(error.reason(), error.to_string())),
        Ok(scale) if scale.selector.is_empty() => {
            return Some(ConditionContent::no(
                Reason::NoSelector,
                "the target's /scale has no status.selector, so its pods cannot be found; set \
                 subresources.scale.labelSelectorPath in its CustomResourceDefinition",
            ));
        }
        Ok(_) if plan.paused => return Some(paused(observed)),
        Ok(_) => {}
    }
    let owner = observed.target_owner.as_ref()?;
    let message = format!(
        "workload {} scales the same {}, so no size is written for this one; delete one of the two",
        owner.name, observed.autoscaler.spec.scale_target_ref.kind
    );
    Some(ConditionContent::no(Reason::TargetTaken, message))
}

/// A value by which the metrics-adapter cannot divide. Those of HPAs are rejected with their HPA.
fn metric_target_problem(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let error = observed.autoscaler.spec.target(observed.pod_limit, &observed.settings).err()?;
    let problem = format!("spec.target is invalid: {error}");
    let problem = Problem::new(Reason::BadTarget, problem, "set it to a quantity above 0, such as \"70\"");
    Some(ConditionContent::no(problem.reason, problem.message()))
}

/// A failed write stays the problem until it succeeds or is no longer wanted: also while the path
/// is probed anew before the next attempt.
pub(super) fn failed_write(
    observed: &ObservedWorkload,
    plan: &Plan,
    written: &Result<ScaleWriteResult, ScaleError>,
) -> Option<ConditionContent> {
    let is_pending = match written {
        Err(error) => return Some(ConditionContent::no(Reason::ScaleNotWritten, error.to_string())),
        Ok(ScaleWriteResult::Conflict | ScaleWriteResult::Delayed) => true,
        Ok(ScaleWriteResult::NotNeeded) => plan.probe,
        Ok(ScaleWriteResult::Written(_)) => false,
    };
    let before = condition(conditions::of(&observed.autoscaler), READY)?;
    let is_failed = is_pending && before.reason == Reason::ScaleNotWritten.as_str();
    is_failed.then(|| ConditionContent::no(Reason::ScaleNotWritten, before.message.clone()))
}

fn hpa_problem(observed: &ObservedWorkload) -> Option<ConditionContent> {
    match observed.hpa.as_ref()? {
        HpaState::Rejected(problem) => {
            let message = format!("{}; until then the last accepted HPA stays in force", problem.message());
            Some(ConditionContent::no(problem.reason, message))
        }
        HpaState::Missing(problem) => Some(ConditionContent::no(problem.reason, problem.message())),
        HpaState::Accepted(_) | HpaState::Inactive(_) => None,
    }
}

fn service_problem(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let status = observed.serverless_service.as_ref().and_then(|service| service.status.as_ref());
    let Some(ready) = status.and_then(|status| condition(&status.conditions, serverless_service::READY))
    else {
        return Some(ConditionContent::unknown(
            Reason::ServiceNotReadyYet,
            "the ServerlessService was not reconciled yet",
        ));
    };
    match ready.status.as_str() {
        "False" => Some(ConditionContent::no(
            Reason::ServiceNotReady,
            format!("{}: {}", ready.reason, ready.message),
        )),
        "Unknown" => Some(ConditionContent::unknown(Reason::ServiceNotReadyYet, ready.message.clone())),
        _ => None,
    }
}

fn sidecar_problem(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let mode = observed.autoscaler.spec.sidecar(&observed.settings).unwrap_or(observed.sidecar_mode);
    if !mode.is_required() {
        return None;
    }
    let missing = sidecar_missing(observed).map(|message| (Reason::SidecarMissing, message));
    let (reason, message) =
        missing.or_else(|| Some((Reason::ProtocolMismatch, protocol_mismatch(observed)?)))?;
    Some(ConditionContent::no(reason, message))
}

fn selection_problem(observed: &ObservedWorkload) -> Option<ConditionContent> {
    let Some(UnusablePod::NotSelected(pod)) = &observed.unusable_pod else { return None };
    let PodSelection { selector, source } = observed.pod_selection()?;
    let service = &observed.autoscaler.spec.service;
    let fix = match source {
        SelectorSource::Service if observed.service.as_deref().is_some_and(is_managed) => {
            "annotate the HPA or PodAutoscaler with another selector"
        }
        SelectorSource::Service => "correct the Service's selector",
        SelectorSource::PodAutoscaler => "correct the annotation or field selector",
        SelectorSource::Target => "restart the pods",
    };
    let message = format!(
        "pod {pod} of the target is ready and gets no requests, because Service {service:?} selects {selector}; give \
         the target's pod template these labels, or {fix}"
    );
    Some(ConditionContent::no(Reason::PodsNotSelected, message))
}

fn sidecar_missing(observed: &ObservedWorkload) -> Option<String> {
    let pod = match (&observed.sidecar, &observed.unusable_pod) {
        (Some(Sidecar::Missing), _) => None,
        // The template has one, or cannot be read.
        (_, Some(UnusablePod::WithoutSidecar(pod))) => Some(pod.as_str()),
        _ => return None,
    };
    let target = &observed.autoscaler.spec.scale_target_ref;
    let target = format!("{}/{}", target.kind.to_lowercase(), target.name);
    Some(sidecar::missing(pod).of_target(&observed.key.namespace, &target).message())
}

/// A Service port with another protocol than the pods' sidecars.
fn protocol_mismatch(observed: &ObservedWorkload) -> Option<String> {
    let Some(Sidecar::Configured { protocol: pods, .. }) = &observed.sidecar else { return None };
    let lease = observed.leases().iter().find(|lease| lease.protocol != *pods)?;
    let (port, protocol) = (lease.service_port, lease.protocol);
    Some(format!(
        "port {port} of the Service is {protocol} by its appProtocol, and the pods' sidecars expect {pods}; annotate the \
         pods with {PROTOCOL}: {protocol}, or change the port's appProtocol"
    ))
}

fn served_by(observed: &ObservedWorkload, plan: &Plan) -> ConditionContent {
    let given_up = observed.start_failure.as_ref().is_some_and(|failure| failure.given_up);
    match plan.activation.phase {
        ActivePhase::Activating if given_up => {
            ConditionContent::no(Reason::CannotStart, "the pods cannot start; requests get 503 until one can")
        }
        ActivePhase::Activating => ConditionContent::unknown(Reason::Activating, PODS_STARTING),
        ActivePhase::Active => ConditionContent::yes(Reason::Serving, ""),
        ActivePhase::Inactive => ConditionContent::yes(Reason::Idle, "activators hold requests"),
    }
}
