//! The HPA: whether it is the only one of its target, is followed, and can reach the decision.

pub(super) mod unmanaged;

use autoscaler::api::reasons;
use k8s_openapi::api::autoscaling::v2::{
    HPAScalingRules, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
};
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::namespace_objects::named;
use crate::check::workload_objects::WorkloadObjects;

/// Seconds for which the HPA controller may fail: new pods have no resource metrics yet.
const TRANSIENT: i64 = 120;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let object = format!("HorizontalPodAutoscaler {}", workload.key);
    let mut findings: Vec<Finding> = shared_target(workload, &object).into_iter().collect();
    let Some(hpa) = &workload.hpa else { return findings };
    findings.extend(not_followed(workload, &object));
    findings.extend(without_metric(workload, hpa, &object));
    findings.extend(unable_to_scale(hpa, &object));
    findings.extend(disabled_direction(workload, hpa, &object));
    findings.extend(at_maximum(workload, hpa, &object));
    findings
}

/// Without an HPA of its own, the zero-scaler writes all sizes of the workload.
fn shared_target(workload: &WorkloadObjects, object: &str) -> Option<Finding> {
    let other = workload.other_hpas.first()?;
    let namespace = &workload.key.namespace;
    let target = workload.target_name();
    let (object, problem) = if workload.hpa.is_some() {
        (
            object.to_owned(),
            format!("HPA {other} scales the same {target}, so each reverts the other's sizes"),
        )
    } else {
        let problem = format!(
            "it scales {target}, and so does Rouse (scaler: Direct): each reverts the sizes of the other"
        );
        (format!("HorizontalPodAutoscaler {namespace}/{other}"), problem)
    };
    let owner = named(&workload.namespace.hpas, other).and_then(|hpa| hpa.owner_references().first());
    let delete = owner.map_or_else(
        || format!("kubectl --namespace {namespace} delete hpa {other}"),
        |owner| format!("delete {} {}, which owns HPA {other}", owner.kind, owner.name),
    );
    Some(Finding::error(object, "MultipleHPAs", problem, format!("delete one of the two: {delete}")))
}

fn not_followed(workload: &WorkloadObjects, object: &str) -> Option<Finding> {
    if workload.autoscaler.is_some() || !workload.other_hpas.is_empty() {
        return None;
    }
    let (reason, note) = workload.hpa_warning.clone().or_else(|| other_type(workload)).unwrap_or_else(|| {
        let note = "there is no PodAutoscaler of its name, and no event about the reason".to_owned();
        ("NotFollowed".to_owned(), note)
    });
    let fix =
        reasons::fix(&reason).unwrap_or("see the logs of Deployment zero-scaler, and kubectl describe hpa");
    Some(Finding::error(object, &reason, note, fix))
}

/// The most frequent reason, for which the event may have expired.
fn other_type(workload: &WorkloadObjects) -> Option<(String, String)> {
    let metrics = workload.hpa.as_ref()?.spec.metrics.iter().flatten();
    let other = metrics
        .filter_map(|metric| metric.external.as_ref())
        .find(|source| source.target.type_ != "AverageValue")?;
    let note = format!(
        "the target of {} has type {}; set type: AverageValue",
        other.metric.name, other.target.type_
    );
    Some(("TargetNotAverageValue".to_owned(), note))
}

/// A problem of the HPA controller with a metric. An HPA at zero is parked and reads none.
fn without_metric(
    workload: &WorkloadObjects,
    hpa: &HorizontalPodAutoscaler,
    object: &str,
) -> Option<Finding> {
    let failing = condition(hpa, "ScalingActive")?;
    let reason = failing.reason.as_deref().filter(|reason| *reason != "ScalingDisabled")?;
    let is_external = reason == "FailedGetExternalMetric";
    let since = failing.last_transition_time.as_ref().map(|time| time.0.as_second());
    let is_new = since.is_some_and(|since| workload.shared.now.as_second().saturating_sub(since) < TRANSIENT);
    if is_new && !is_external {
        return None;
    }
    let problem = format!("it gets no metric: {}", failing.message.as_deref().unwrap_or("no message"));
    let fix = match reasons::fix(reason) {
        Some(fix) => fix,
        None if is_external => {
            "see docs/troubleshooting.md, \"The HPA shows <unknown>\"; until then it keeps its size"
        }
        None if reason == "FailedGetResourceMetric" => {
            "let a metrics-server serve metrics.k8s.io and give the containers requests, or remove that \
             metric; until then the HPA does not scale down"
        }
        None => "correct the metric that the message names, or the adapter that serves it",
    };
    Some(Finding::error(object, reason, problem, fix))
}

fn unable_to_scale(hpa: &HorizontalPodAutoscaler, object: &str) -> Option<Finding> {
    let failing = condition(hpa, "AbleToScale")?;
    let reason =
        failing.reason.as_deref().filter(|it| matches!(*it, "FailedGetScale" | "FailedUpdateScale"))?;
    let problem =
        format!("it cannot scale its target: {}", failing.message.as_deref().unwrap_or("no message"));
    let fix = "correct scaleTargetRef, or what rejects the target's scale: an admission webhook or policy";
    Some(Finding::error(object, reason, problem, fix))
}

/// The condition of a type, if it is False.
fn condition<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    kind: &str,
) -> Option<&'a HorizontalPodAutoscalerCondition> {
    let mut all = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    all.find(|condition| condition.type_ == kind && condition.status == "False")
}

/// Down matters for zero alone: the HPA has to reach minReplicas first.
fn disabled_direction(
    workload: &WorkloadObjects,
    hpa: &HorizontalPodAutoscaler,
    object: &str,
) -> Option<Finding> {
    let behavior = hpa.spec.behavior.as_ref()?;
    let is_disabled = |rules: Option<&HPAScalingRules>| {
        rules.is_some_and(|rules| rules.select_policy.as_deref() == Some("Disabled"))
    };
    let finding = |direction: &str, effect: &str| {
        let problem = format!("behavior.{direction} has selectPolicy: Disabled, so {effect}");
        let fix = format!("remove selectPolicy of behavior.{direction}");
        Finding::warning(object, "ScalingDisabled", problem, fix)
    };
    if is_disabled(behavior.scale_up.as_ref()) {
        return Some(finding("scaleUp", "pods are added in a panic alone"));
    }
    (is_disabled(behavior.scale_down.as_ref()) && workload.goes_to_zero()).then(|| {
        finding("scaleDown", "the workload never gets back to minReplicas, from which it goes to zero")
    })
}

fn at_maximum(workload: &WorkloadObjects, hpa: &HorizontalPodAutoscaler, object: &str) -> Option<Finding> {
    let max = hpa.spec.max_replicas;
    let desired = workload.autoscaler.as_ref()?.status.as_ref()?.desired_replicas?;
    (desired > max).then(|| {
        let problem = format!("the load needs {desired} pods, and maxReplicas is {max}");
        Finding::warning(object, "AtMaximum", problem, "raise maxReplicas, or the target of the metric")
    })
}
