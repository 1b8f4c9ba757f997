//! The HPA: the one of the target with a metric of Rouse added, or a new one.

use std::time::Duration;

use autoscaler::contract::{CONTAINER_CONCURRENCY, METRIC, NO_METRIC, SCALE_TO_ZERO, SERVICE_SELECTOR};
use autoscaler::findings::hpa::rouse_metrics;
use autoscaler::settings::DEFAULT_PROGRESS_DEADLINE;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde::Deserialize;
use serde_json::{Value, json};

use super::change::{Change, Step};
use super::object::{annotations, applicable, items, kind, merge, name, namespace, patch_command, text};
use super::target::Target;

/// Annotations for starts that take long.
const WAKE_TIMEOUT: &str = "autoscaling.rouse.dev/wake-timeout";
const PROGRESS_DEADLINE: &str = "autoscaling.rouse.dev/progress-deadline";
/// Pods that a new HPA allows for each present one, and at least.
const MAX_FACTOR: i64 = 10;
const LEAST_MAX: i64 = 10;

/// The change; `None` if the HPA has a metric of Rouse, or states that it needs none, and allows
/// zero. Several HPAs on the target are an error.
pub(super) fn change(
    hpas: &[Value],
    target: &Value,
    service: &Value,
    scale: &Target,
    slow_start: Option<Duration>,
) -> Result<Option<Change>, String> {
    let kind = kind(target);
    let same = |hpa: &&Value| {
        text(hpa, "/spec/scaleTargetRef/kind") == Some(kind)
            && text(hpa, "/spec/scaleTargetRef/name") == Some(name(target))
    };
    let existing: Vec<&Value> = hpas.iter().filter(same).collect();
    let wanted = wanted_annotations(scale.limit, slow_start);
    match existing.as_slice() {
        [] => Ok(Some(new_hpa(kind, target, service, scale, &wanted))),
        [hpa] => Ok(changed(hpa, service, scale, &wanted)),
        several => {
            let names: Vec<&str> = several.iter().map(|hpa| name(hpa)).collect();
            Err(format!("HPAs {} all scale {kind} {}; delete all but one", names.join(", "), name(target)))
        }
    }
}

fn wanted_annotations(limit: Option<u32>, slow_start: Option<Duration>) -> Value {
    let allowed = [(SCALE_TO_ZERO, "true".to_owned())];
    let limit = limit.map(|limit| (CONTAINER_CONCURRENCY, limit.to_string()));
    let seconds = |start: Duration| format!("{}s", start.as_secs());
    let hold = slow_start.map(|start| (WAKE_TIMEOUT, seconds(start)));
    // A shorter one would give up starts that the default allows.
    let deadline = slow_start.filter(|start| *start > DEFAULT_PROGRESS_DEADLINE);
    let deadline = deadline.map(|start| (PROGRESS_DEADLINE, seconds(start)));
    annotations(allowed.into_iter().chain(limit).chain(hold).chain(deadline))
}

fn metric(service: &Value, scale: &Target) -> Value {
    let target = json!({"type": "AverageValue", "averageValue": scale.average});
    if scale.of_service {
        return json!({"type": "Object", "object": {
            "metric": {"name": scale.metric},
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": name(service)},
            "target": target,
        }});
    }
    json!({"type": "External", "external": {
        "metric": {"name": scale.metric, "selector": {"matchLabels": {SERVICE_SELECTOR: name(service)}}},
        "target": target,
    }})
}

/// The behavior with which the HPA follows the metric at once: Rouse smooths it.
fn behavior() -> Value {
    json!({
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "tolerance": "0",
            "policies": [
                {"type": "Percent", "value": 99900, "periodSeconds": 15},
                {"type": "Pods", "value": 1000, "periodSeconds": 15},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": 0,
            "tolerance": "0",
            "policies": [{"type": "Percent", "value": 50, "periodSeconds": 15}],
        },
    })
}

fn new_hpa(kind: &str, target: &Value, service: &Value, scale: &Target, wanted: &Value) -> Change {
    let replicas = target.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let mut object = json!({
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name(target), "namespace": namespace(target)},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name(target)},
            "minReplicas": 1,
            "maxReplicas": replicas.saturating_mul(MAX_FACTOR).clamp(LEAST_MAX, i32::MAX.into()),
            "metrics": [metric(service, scale)],
            "behavior": behavior(),
        },
    });
    merge(&mut object, wanted);
    let summary = format!(
        "HorizontalPodAutoscaler {}/{}: a new one, on {}, to zero when idle",
        namespace(target),
        name(target),
        scale.metric
    );
    Change { step: Step::Traffic, summary, command: None, object, before: None }
}

fn changed(hpa: &Value, service: &Value, scale: &Target, wanted: &Value) -> Option<Change> {
    let mut patch = wanted.clone();
    let is_without_metric = annotation_metric(hpa) == Some(NO_METRIC);
    if !is_without_metric && !has_metric(hpa) {
        let metrics: Vec<Value> =
            items(hpa, "/spec/metrics").iter().cloned().chain([metric(service, scale)]).collect();
        merge(&mut patch, &json!({"spec": {"metrics": metrics}}));
    }
    if !is_without_metric && hpa.pointer("/spec/behavior").is_none() {
        merge(&mut patch, &json!({"spec": {"behavior": behavior()}}));
    }
    let mut object = applicable(hpa);
    let before = object.clone();
    merge(&mut object, &patch);
    if object == before {
        return None;
    }
    let summary = format!(
        "HorizontalPodAutoscaler {}/{}: with a metric of Rouse beside its own, to zero when idle",
        namespace(hpa),
        name(hpa)
    );
    let command = Some(patch_command(hpa, "hpa", Some("merge"), &patch));
    Some(Change { step: Step::Traffic, summary, command, object, before: Some(hpa.clone()) })
}

fn has_metric(hpa: &Value) -> bool {
    let hpa = HorizontalPodAutoscaler::deserialize(hpa);
    hpa.is_ok_and(|hpa| !rouse_metrics(&hpa.spec, true).is_empty())
}

fn annotation_metric(hpa: &Value) -> Option<&str> {
    hpa.pointer("/metadata/annotations")?.get(METRIC)?.as_str().map(str::trim)
}
