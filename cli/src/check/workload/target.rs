//! The scale target: whether it exists, its pods are created, and Rouse alone scales it.

use autoscaler::api::Scaler;
use autoscaler::findings::deployment_conditions::creation_failure;
use autoscaler::findings::reasons::{CheckReason, Reason};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

/// Seconds for which an event counts.
const RECENT: i64 = 600;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    if workload.namespace.lacks(&workload.target) {
        return Vec::new();
    }
    let deployment = workload.deployment();
    let mut findings: Vec<Finding> = terminating(workload).into_iter().collect();
    findings.extend(not_created(workload, deployment));
    findings.extend(deployment.and_then(|it| paused(workload, it)));
    findings.extend(scaled_by_others(workload));
    findings
}

/// No pods can be created there, so requests to workloads at zero fail.
fn terminating(workload: &WorkloadObjects) -> Option<Finding> {
    workload.namespace.object.found()?.metadata.deletion_timestamp.as_ref()?;
    let problem = "it is being deleted: no pods can be created, and its workloads are not woken";
    let object = format!("Namespace {}", workload.namespace.name);
    Some(Finding::error(object, CheckReason::NamespaceTerminating, problem))
}

/// What the zero-scaler reports of it.
pub(super) fn absent(workload: &WorkloadObjects) -> Option<Finding> {
    workload.namespace.lacks(&workload.target).then(|| {
        let kind = if workload.hpa.is_some() { "HorizontalPodAutoscaler" } else { "PodAutoscaler" };
        let problem = format!("{} not found", workload.target_name());
        Finding::error(format!("{kind} {}", workload.key), Reason::TargetNotFound, problem)
    })
}

/// A Deployment has a condition. Of a StatefulSet there are events alone.
fn not_created(workload: &WorkloadObjects, deployment: Option<&Deployment>) -> Option<Finding> {
    let (kind, name) = &workload.target;
    let message = match deployment {
        Some(deployment) => creation_failure(deployment)?,
        None => {
            let event = workload.namespace.last_warning(kind, name, "")?;
            let is_recent = workload.shared.now.as_second().saturating_sub(last_seen(event)?) < RECENT;
            event.note.as_deref().filter(|_| is_recent && event.reason.as_deref() == Some("FailedCreate"))?
        }
    };
    let problem = format!("its pods cannot be created: {message}");
    Some(Finding::error(workload.target_name(), Reason::PodsNotCreated, problem))
}

/// In Unix seconds. Controllers write events in two forms.
fn last_seen(event: &Event) -> Option<i64> {
    let micro = event.series.as_ref().map(|series| &series.last_observed_time).or(event.event_time.as_ref());
    let time = event.deprecated_last_timestamp.as_ref().or(event.metadata.creation_timestamp.as_ref());
    micro.map(|it| it.0.as_second()).or_else(|| time.map(|it| it.0.as_second()))
}

fn paused(workload: &WorkloadObjects, deployment: &Deployment) -> Option<Finding> {
    deployment.spec.paused.unwrap_or(false).then(|| {
        let problem = "its rollout is paused, so changes of its template, such as the sidecar's label, do \
                       not reach pods";
        Finding::warning(workload.target_name(), CheckReason::RolloutPaused, problem)
    })
}

/// Beside scaler: Other, another autoscaler may write sizes. The HPA of a ScaledObject is reported
/// with the HPAs.
fn scaled_by_others(workload: &WorkloadObjects) -> Option<Finding> {
    let mut others = workload.namespace.other_scalers.iter().filter(|it| it.target == workload.target);
    let other = others.find(|it| it.object.starts_with("Rollout ") || workload.scaler() != Scaler::Other)?;
    workload.other_hpas.is_empty().then(|| {
        let problem = format!("{} writes its size too, so each reverts the other's", other.object);
        Finding::error(workload.target_name(), Reason::ScaleConflict, problem)
    })
}
