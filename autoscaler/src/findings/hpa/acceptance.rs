//! Whether an HPA can be followed, and the PodAutoscaler that follows it. Pure.
//!
//! The zero-scaler creates a PodAutoscaler from an accepted HPA, and reports problems in the
//! condition HPAAccepted.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerSpec,
};
use kube::ResourceExt;

use super::advice::behavior_advice;
use super::annotations::{HpaAnnotations, rouse_annotations};
use super::metric_source::{HpaMetricSource, rouse_metrics};
use crate::api::{PodAutoscalerSpec, ScaleTargetRef, Scaler, group_of};
use crate::contract::{METRIC, SERVICE};
use crate::findings::Problem;
use crate::findings::annotations::{AnnotatedObject, without_effect};
use crate::findings::reasons::Reason;
use crate::settings::AutoscalerConfig;

/// Whether Rouse follows an HPA.
#[derive(Clone, Debug, PartialEq)]
pub enum HpaAcceptance {
    /// It has no metric of Rouse.
    Foreign,
    /// It has a metric of Rouse and cannot be followed.
    Rejected(Problem),
    /// It is followed.
    Accepted(Box<AcceptedHpa>),
}

/// The parts of a PodAutoscaler that come from its HPA.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedHpa {
    pub spec: PodAutoscalerSpec,
    /// The PodAutoscaler's annotations: the HPA's annotations of Rouse's group.
    pub annotations: BTreeMap<String, String>,
    /// Problems that do not keep the HPA from being followed.
    pub advice: Vec<Problem>,
}

/// Evaluates an HPA. `siblings` are the other HPAs of its namespace; `custom` is whether Rouse
/// serves custom.metrics.k8s.io.
pub fn accept<'a>(
    hpa: &HorizontalPodAutoscaler,
    siblings: impl IntoIterator<Item = &'a HorizontalPodAutoscaler>,
    config: &AutoscalerConfig,
    custom: bool,
) -> HpaAcceptance {
    let metrics = rouse_metrics(&hpa.spec, custom);
    let parsed = HpaAnnotations::of(hpa);
    if metrics.is_empty() && !parsed.is_without_metric {
        return HpaAcceptance::Foreign;
    }
    if let Some(problem) = several_metrics(&metrics, &parsed) {
        return HpaAcceptance::Rejected(problem);
    }
    if let Some(problem) = shared_target(&hpa.spec, siblings).or_else(|| ambiguous_selector(hpa)) {
        return HpaAcceptance::Rejected(problem);
    }
    match pod_autoscaler_spec(&hpa.spec, metrics.first(), &parsed) {
        Ok(spec) => {
            let annotations = rouse_annotations(hpa);
            let mut advice = parsed.problems;
            advice.extend(without_effect(hpa.annotations().keys(), AnnotatedObject::Hpa));
            if spec.scaler == Scaler::Hpa {
                advice.extend(behavior_advice(hpa, spec.scale_to_zero));
            }
            let (_, errors) = spec.settings(config, &annotations);
            let ignored = |error| Problem::new(Reason::BadSetting, format!("{error}; it is ignored"), "");
            advice.extend(errors.iter().map(ignored));
            HpaAcceptance::Accepted(Box::new(AcceptedHpa { spec, annotations, advice }))
        }
        Err(problem) => HpaAcceptance::Rejected(problem),
    }
}

fn several_metrics(metrics: &[HpaMetricSource<'_>], annotations: &HpaAnnotations) -> Option<Problem> {
    let (problem, fix) = match metrics {
        [_, _, ..] => (
            "the HPA has several metrics of Rouse".to_owned(),
            "keep one of concurrency, requests-per-second and desired-replicas",
        ),
        [_] if annotations.is_without_metric => (
            format!("annotation {METRIC} is \"none\", and the HPA has a metric of Rouse"),
            "remove one of the two",
        ),
        _ => return None,
    };
    Some(Problem::new(Reason::MultipleMetrics, problem, fix))
}

fn shared_target<'a>(
    spec: &HorizontalPodAutoscalerSpec,
    siblings: impl IntoIterator<Item = &'a HorizontalPodAutoscaler>,
) -> Option<Problem> {
    let target = &spec.scale_target_ref;
    let other = siblings.into_iter().find(|hpa| is_same_object(&hpa.spec.scale_target_ref, target))?;
    let problem = format!("HPA {} scales the same {} {}", other.name_any(), target.kind, target.name);
    Some(Problem::new(Reason::MultipleHPAs, problem, deletion_of(other)))
}

/// How to delete one of two HPAs of a target: an HPA that another program made comes back.
pub fn deletion_of(other: &HorizontalPodAutoscaler) -> String {
    let (namespace, name) = (other.namespace().unwrap_or_default(), other.name_any());
    let usual = Reason::MultipleHPAs.fix();
    match other.owner_references().first() {
        Some(owner) => format!("{usual}: delete {} {}, which owns HPA {name}", owner.kind, owner.name),
        None => format!("{usual}: kubectl --namespace {namespace} delete hpa {name}"),
    }
}

/// Versions of one group may differ.
fn is_same_object(a: &CrossVersionObjectReference, b: &CrossVersionObjectReference) -> bool {
    fn group(object: &CrossVersionObjectReference) -> &str {
        group_of(object.api_version.as_deref().unwrap_or_default())
    }
    a.kind == b.kind && a.name == b.name && group(a) == group(b)
}

/// The HPA controller scales nothing for such an HPA, because another HPA's target has the same
/// pods.
fn ambiguous_selector(hpa: &HorizontalPodAutoscaler) -> Option<Problem> {
    let condition = hpa.status.as_ref()?.conditions.iter().flatten().find(|c| is_ambiguous(c))?;
    let cause = condition.message.as_deref().unwrap_or_default();
    let problem = format!("the HPA controller does not scale this HPA: {cause}");
    Some(Problem::with_usual_fix(Reason::AmbiguousSelector, problem))
}

/// Whether a condition of an HPA reports that its pods are also pods of another HPA.
pub fn is_ambiguous(condition: &HorizontalPodAutoscalerCondition) -> bool {
    condition.reason.as_deref() == Some(Reason::AmbiguousSelector.as_str())
}

fn pod_autoscaler_spec(
    spec: &HorizontalPodAutoscalerSpec,
    source: Option<&HpaMetricSource<'_>>,
    annotations: &HpaAnnotations,
) -> Result<PodAutoscalerSpec, Problem> {
    let (scaler, metric, target, service) = match source {
        Some(source) => {
            let (metric, target) = source.name_and_target()?;
            (Scaler::Hpa, Some(metric), target, source.service()?)
        }
        None => (Scaler::Other, None, None, service_of_annotation(annotations)?),
    };
    // The default of the Kubernetes API.
    let min_replicas = spec.min_replicas.unwrap_or(1);
    Ok(PodAutoscalerSpec {
        scale_target_ref: ScaleTargetRef {
            api_version: spec.scale_target_ref.api_version.clone().unwrap_or_default(),
            kind: spec.scale_target_ref.kind.clone(),
            name: spec.scale_target_ref.name.clone(),
        },
        scaler,
        service,
        metric,
        target,
        container_concurrency: annotations.container_concurrency,
        // By annotations, which are copied.
        sidecar: None,
        selector: None,
        no_wake: None,
        waiting_page: None,
        schedule: None,
        paused: None,
        min_replicas: Some(min_replicas.max(1)),
        max_replicas: Some(spec.max_replicas),
        // With minReplicas: 0 the HPA itself writes 0: requests must be held and wake the workload
        // then.
        scale_to_zero: annotations.scale_to_zero || min_replicas == 0,
    })
}

fn service_of_annotation(annotations: &HpaAnnotations) -> Result<String, Problem> {
    annotations.service.clone().ok_or_else(|| {
        let fix = format!("annotate the HPA with {SERVICE}: <Service name>");
        Problem::new(Reason::ServiceMissing, "no metric of the HPA names its Service", fix)
    })
}

#[cfg(test)]
#[path = "acceptance_tests.rs"]
mod tests;
