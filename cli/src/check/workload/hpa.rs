//! The HPA: whether it is the only one of its target, is followed, and can reach the decision.

pub(super) mod unmanaged;

use autoscaler::api::Scaler;
use autoscaler::findings::hpa::{HpaAcceptance, accept, deletion_of, is_metric_failure};
use autoscaler::findings::reasons::{CheckReason, Reason, description};
use autoscaler::settings::AutoscalerConfig;
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition};
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::namespace_objects::named;
use crate::check::workload_objects::WorkloadObjects;

/// Seconds for which the HPA controller may fail: new pods have no resource metrics yet.
const TRANSIENT: i64 = 120;

/// What the zero-scaler reports of it.
pub(super) fn rejected(workload: &WorkloadObjects) -> Option<Finding> {
    let hpa = workload.hpa.as_ref().filter(|_| workload.scaler() != Scaler::Direct)?;
    let siblings = workload.namespace.hpas.iter().filter(|other| other.name_any() != hpa.name_any());
    match accept(hpa, siblings, &AutoscalerConfig::default(), false) {
        HpaAcceptance::Rejected(problem) => Some(Finding::of_problem(object(workload), problem)),
        HpaAcceptance::Accepted(_) | HpaAcceptance::Foreign => None,
    }
}

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(hpa) = &workload.hpa else { return beside_direct(workload).into_iter().collect() };
    let mut findings: Vec<Finding> = not_followed(workload).into_iter().collect();
    findings.extend(without_metric(workload, hpa));
    findings.extend(unable_to_scale(workload, hpa));
    findings.extend(at_maximum(workload, hpa));
    findings
}

fn object(workload: &WorkloadObjects) -> String {
    format!("HorizontalPodAutoscaler {}", workload.key)
}

/// Without an HPA of its own, the zero-scaler writes all sizes of the workload, and reads no HPA.
fn beside_direct(workload: &WorkloadObjects) -> Option<Finding> {
    let other = named(&workload.namespace.hpas, workload.other_hpas.first()?)?;
    let target = workload.target_name();
    let problem = format!(
        "it scales {target}, and so does Rouse (scaler: Direct): each reverts the sizes of the other"
    );
    let object = format!("HorizontalPodAutoscaler {}/{}", workload.key.namespace, other.name_any());
    Some(Finding::error(object, Reason::MultipleHPAs, problem).with_fix(deletion_of(other)))
}

/// The reason is that of the zero-scaler's last event, if it has one.
fn not_followed(workload: &WorkloadObjects) -> Option<Finding> {
    if workload.autoscaler.is_some() || rejected(workload).is_some() {
        return None;
    }
    let (reason, note) = workload.hpa_warning.clone().unwrap_or_else(|| {
        let note = "there is no PodAutoscaler of its name, and no event about the reason".to_owned();
        (String::new(), note)
    });
    let row = description(&reason).unwrap_or(CheckReason::NotFollowed.into());
    Some(Finding::error(object(workload), row, note))
}

/// A problem of the HPA controller with a metric. An HPA at zero is parked and reads none.
fn without_metric(workload: &WorkloadObjects, hpa: &HorizontalPodAutoscaler) -> Option<Finding> {
    let failing = condition(hpa, "ScalingActive").filter(|condition| is_metric_failure(condition))?;
    let reason = failing.reason.as_deref()?;
    let is_external = reason == Reason::FailedGetExternalMetric.as_str();
    let since = failing.last_transition_time.as_ref().map(|time| time.0.as_second());
    let is_new = since.is_some_and(|since| workload.shared.now.as_second().saturating_sub(since) < TRANSIENT);
    if is_new && !is_external {
        return None;
    }
    let problem = format!("it gets no metric: {}", failing.message.as_deref().unwrap_or("no message"));
    let row = description(reason).unwrap_or(Reason::FailedGetMetric.into());
    let finding = Finding::error(object(workload), row, problem);
    Some(Finding { reason: reason.to_owned(), ..finding })
}

fn unable_to_scale(workload: &WorkloadObjects, hpa: &HorizontalPodAutoscaler) -> Option<Finding> {
    let failing = condition(hpa, "AbleToScale")?;
    let reasons = [CheckReason::FailedGetScale, CheckReason::FailedUpdateScale];
    let reason = reasons.into_iter().find(|reason| failing.reason.as_deref() == Some(reason.as_str()))?;
    let problem =
        format!("it cannot scale its target: {}", failing.message.as_deref().unwrap_or("no message"));
    Some(Finding::error(object(workload), reason, problem))
}

/// The condition of a type, if it is False.
fn condition<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    kind: &str,
) -> Option<&'a HorizontalPodAutoscalerCondition> {
    let mut all = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.find(|condition| condition.type_ == kind && condition.status == "False")
}

fn at_maximum(workload: &WorkloadObjects, hpa: &HorizontalPodAutoscaler) -> Option<Finding> {
    let max = hpa.spec.max_replicas;
    let desired = workload.autoscaler.as_ref()?.status.as_ref()?.desired_replicas?;
    (desired > max).then(|| {
        let problem = format!("the load needs {desired} pods, and maxReplicas is {max}");
        Finding::warning(object(workload), CheckReason::AtMaximum, problem)
    })
}
