//! The condition Degraded: the workload is served, and something in its configuration should be
//! changed.
//!
//! Present only while there is something to change. Problems that keep requests from being served
//! are reasons of the condition Ready instead.

use std::time::Duration;

use autoscaler::Protocol;
use autoscaler::api::{Scaler, condition};
use autoscaler::contract::{CONTAINER_CONCURRENCY, NO_WAKE, QUEUE_PROXY, QUEUE_PROXY_PORT};
use autoscaler::findings::Problem;
use autoscaler::findings::annotations::{AnnotatedObject, without_effect};
use autoscaler::findings::hpa::{metric_failure, slow_hpa};
use autoscaler::findings::service::ServiceFields;
use autoscaler::findings::sidecar::Sidecar;
use autoscaler::settings::LearnTarget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;

use super::decide::allowed;
use super::observe::{ObservedWorkload, is_of_hpa};
use crate::controllers::context::Context;
use crate::controllers::serverless_service::READY;
use crate::kubernetes::conditions::ConditionContent;
use crate::kubernetes::reasons::Reason;
use crate::pods::endpoints::{is_managed, routable_ports};

/// The condition's type.
pub(super) const DEGRADED: &str = "Degraded";

/// Warnings of a ServerlessService that is Ready.
const SERVICE_WARNINGS: [Reason; 2] = [Reason::SidecarBypassed, Reason::TargetPortIgnored];

/// The condition, if there is something to report.
pub(super) fn degraded(observed: &ObservedWorkload) -> Option<ConditionContent> {
    if !observed.bad_settings.is_empty() {
        let messages: Vec<String> = bad_settings(observed).collect();
        return Some(ConditionContent::yes(Reason::BadSetting, messages.join("; ")));
    }
    let (reason, message) = advice(observed)?;
    Some(ConditionContent::yes(reason, message))
}

/// A message for each invalid setting of the workload.
pub(super) fn bad_settings(observed: &ObservedWorkload) -> impl Iterator<Item = String> {
    observed.bad_settings.iter().map(|error| format!("{error}; it is ignored"))
}

/// What should be changed in the workload's Service or pods, or in another writer of its size.
pub(super) fn advice(observed: &ObservedWorkload) -> Option<(Reason, String)> {
    let problem = |problem: Problem| (problem.reason, problem.message());
    let conflict = observed.rival.as_ref().map(|rival| rival.problem(&observed.autoscaler));
    let blocked = || observed.wake_check.as_ref().and_then(|checked| checked.as_ref().err()).cloned();
    conflict
        .or_else(blocked)
        .or_else(|| observed.metric_failure.clone()?.ok())
        .map(problem)
        .or_else(|| service_warning(observed))
        .or_else(|| {
            let service = observed.service.as_ref().filter(|_| allowed(observed))?;
            Some(problem(ServiceFields::of(service).keeps_above_zero()?))
        })
        .or_else(|| Some((Reason::ContainerConcurrencyMismatch, concurrency_mismatch(observed)?)))
        .or_else(|| Some((Reason::NoWakeMismatch, no_wake_mismatch(observed)?)))
        .or_else(|| sidecar_conflict(observed))
        .or_else(|| Some((Reason::SidecarBypassed, number_beside_sidecar(observed)?)))
        .or_else(|| annotation_without_effect(observed).map(problem))
        .or_else(|| target_not_learned(observed).map(problem))
        .or_else(|| late_hpa(observed).map(problem))
}

/// A first target that stays, so that there are more pods than the load needs.
fn target_not_learned(observed: &ObservedWorkload) -> Option<Problem> {
    let (spec, settings) = (&observed.autoscaler.spec, &observed.settings);
    let is_learned =
        settings.learns(spec.metric_name(settings)) && settings.learning.mode == LearnTarget::Apply;
    if !is_learned
        || spec.scaler == Scaler::Other
        || spec.names_target(settings)
        || spec.max_replicas == Some(1)
    {
        return None;
    }
    let learning = observed.decision.as_ref().and_then(|decision| decision.learning.as_ref());
    let leases = observed.leases();
    let cause = if !leases.is_empty() && leases.iter().all(|lease| lease.protocol == Protocol::Tcp) {
        "the time of a TCP connection does not show how full a pod is"
    } else if learning.is_some_and(|report| report.long_requests) {
        "requests take too long to show how full a pod is"
    } else {
        return None;
    };
    let problem = format!("no target is named, and none is learned: {cause}");
    Some(Problem::with_usual_fix(Reason::TargetNotLearned, problem))
}

fn late_hpa(observed: &ObservedWorkload) -> Option<Problem> {
    observed.hpa.as_ref()?;
    observed.decision.as_ref()?.hpa_lag.map(slow_hpa)
}

/// Those of an HPA are reported on the HPA.
fn annotation_without_effect(observed: &ObservedWorkload) -> Option<Problem> {
    let autoscaler = &observed.autoscaler;
    let own = autoscaler.annotations().keys().filter(|_| !is_of_hpa(autoscaler));
    let mut own = without_effect(own, AnnotatedObject::PodAutoscaler);
    own.next().or_else(|| observed.target_annotations.first().cloned())
}

fn service_warning(observed: &ObservedWorkload) -> Option<(Reason, String)> {
    let status = observed.serverless_service.as_ref()?.status.as_ref()?;
    let ready = condition(&status.conditions, READY).filter(|ready| ready.status == "True")?;
    let reason = SERVICE_WARNINGS.into_iter().find(|reason| reason.as_str() == ready.reason)?;
    Some((reason, ready.message.clone()))
}

fn sidecar_conflict(observed: &ObservedWorkload) -> Option<(Reason, String)> {
    let Some(Sidecar::Configured { conflict: Some(conflict), .. }) = &observed.sidecar else { return None };
    let problem = conflict.problem();
    Some((problem.reason, problem.message()))
}

/// The default number as a target port, where pods have chosen another one.
fn number_beside_sidecar(observed: &ObservedWorkload) -> Option<String> {
    let Some(Sidecar::Configured { port: sidecar, .. }) = &observed.sidecar else { return None };
    let service = observed.service.as_ref().filter(|service| !is_managed(service))?;
    let name = Some(IntOrString::String(QUEUE_PROXY.to_owned()));
    let by_number = routable_ports(service).find(|port| port.target_port != name)?.port;
    (*sidecar != QUEUE_PROXY_PORT).then(|| {
        format!(
            "port {by_number} of the Service leads to {QUEUE_PROXY_PORT} of the pods, and their sidecar listens on \
             {sidecar}, so its requests are not counted; set targetPort to {QUEUE_PROXY}"
        )
    })
}

/// The size follows from the HPA's limit, and each pod gets requests up to its own. A pod without
/// one is limited by activators alone, which are not always in the path.
fn concurrency_mismatch(observed: &ObservedWorkload) -> Option<String> {
    if !observed.sidecar_mode.is_required() {
        return None;
    }
    let Some(Sidecar::Configured { container_concurrency: pods, .. }) = &observed.sidecar else {
        return None;
    };
    let workload = observed.autoscaler.spec.container_concurrency;
    (workload > 0 && workload != *pods).then(|| {
        format!(
            "container-concurrency is {workload} in the HPA or PodAutoscaler and {pods} in the pod template; annotate the \
             pod template alone, with {CONTAINER_CONCURRENCY}: \"{}\"",
            if *pods == 0 { workload } else { *pods },
        )
    })
}

/// A request that one of the two counts keeps the workload above zero. Sidecars of an app that does
/// not use HTTP have no use for rules.
fn no_wake_mismatch(observed: &ObservedWorkload) -> Option<String> {
    if !observed.sidecar_mode.is_required() {
        return None;
    }
    let pods = observed.sidecar.as_ref().and_then(Sidecar::no_wake)?;
    let workload = &observed.settings.wake.no_wake;
    let rules = if pods.is_empty() { workload } else { pods };
    (pods != workload).then(|| {
        format!(
            "no-wake differs between the HPA or PodAutoscaler and the pod template, so its requests keep the workload above \
             zero; annotate the pod template alone, with {NO_WAKE}: \"{rules}\"",
        )
    })
}

/// A metric that the HPA controller cannot read. Without a decision, that of Rouse has none either.
pub(super) fn failing_metric(
    observed: &ObservedWorkload,
    context: &Context,
) -> Option<Result<Problem, Duration>> {
    let hpa = context.cache.hpa(&observed.key).filter(|_| observed.hpa.is_some())?;
    let is_external = |problem: &Problem| problem.reason == Reason::FailedGetExternalMetric;
    let failure = metric_failure(&hpa, observed.now.as_second())?;
    let is_explained = observed.decision.is_none() && failure.as_ref().is_ok_and(is_external);
    (!is_explained).then_some(failure)
}
