//! The HPA: whether it is the only one of its target, is followed, and can reach the decision.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;

use crate::check::finding::Finding;
use crate::check::workload_objects::WorkloadObjects;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(hpa) = &workload.hpa else { return Vec::new() };
    let object = format!("HorizontalPodAutoscaler {}", workload.key);
    let mut findings: Vec<Finding> = shared_target(workload, &object).into_iter().collect();
    findings.extend(not_followed(workload, &object));
    findings.extend(without_metric(hpa, &object));
    findings.extend(at_maximum(workload, hpa, &object));
    findings
}

fn shared_target(workload: &WorkloadObjects, object: &str) -> Option<Finding> {
    let other = workload.other_hpas.first()?;
    let namespace = &workload.key.namespace;
    let problem =
        format!("HPA {other} scales the same {}, so each reverts the other's sizes", workload.target_name());
    let fix = format!("delete one of the two: kubectl --namespace {namespace} delete hpa {other}");
    Some(Finding::error(object, "MultipleHPAs", problem, fix))
}

fn not_followed(workload: &WorkloadObjects, object: &str) -> Option<Finding> {
    if workload.autoscaler.is_some() || !workload.other_hpas.is_empty() {
        return None;
    }
    let (reason, note) = workload.hpa_warning.clone().unwrap_or_else(|| {
        let note = "there is no PodAutoscaler of its name, and no event about the reason".to_owned();
        ("NotFollowed".to_owned(), note)
    });
    let known = autoscaler::api::reasons::describe().into_iter().find(|row| row.reason == reason);
    let fix = known.map_or("see the logs of Deployment zero-scaler, and kubectl describe hpa", |row| row.fix);
    Some(Finding::error(object, &reason, note, fix))
}

/// A problem of the HPA controller with the metric. An HPA at zero is parked and reads none.
fn without_metric(hpa: &HorizontalPodAutoscaler, object: &str) -> Option<Finding> {
    let conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut active =
        conditions.filter(|condition| condition.type_ == "ScalingActive" && condition.status == "False");
    let failing = active.find(|condition| condition.reason.as_deref() == Some("FailedGetExternalMetric"))?;
    let problem = format!("it gets no metric: {}", failing.message.as_deref().unwrap_or("no message"));
    let fix = "see docs/troubleshooting.md, \"The HPA shows <unknown>\"; until then it keeps its size";
    Some(Finding::error(object, "FailedGetExternalMetric", problem, fix))
}

fn at_maximum(workload: &WorkloadObjects, hpa: &HorizontalPodAutoscaler, object: &str) -> Option<Finding> {
    let max = hpa.spec.max_replicas;
    let desired = workload.autoscaler.as_ref()?.status.as_ref()?.desired_replicas?;
    (desired > max).then(|| {
        let problem = format!("the load needs {desired} pods, and maxReplicas is {max}");
        Finding::warning(object, "AtMaximum", problem, "raise maxReplicas, or the target of the metric")
    })
}
