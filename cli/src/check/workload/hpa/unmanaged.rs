//! HPAs and Deployments that were meant for Rouse and belong to no workload.
//!
//! An HPA is, if it has an annotation of Rouse, or scales pods that are labelled for the sidecar by
//! a metric with a selector that names a Service. A Deployment is, if its pods are labelled and it
//! has size 0.

use std::collections::BTreeSet;

use autoscaler::contract::{GROUP, METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS, SERVICE_SELECTOR};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::namespace_objects::{NamespaceObjects, named};
use crate::check::workload::workload_list::{service_of_metric, target_of};
use crate::check::workload_objects::is_labelled;

/// Findings about them.
pub fn without_workload(objects: &NamespaceObjects) -> Vec<Finding> {
    let hpas = objects.hpas.iter().filter(|hpa| {
        service_of_metric(hpa).is_none() && named(&objects.autoscalers, &hpa.name_any()).is_none()
    });
    let deployments = objects.deployments.iter().flatten();
    hpas.filter_map(|hpa| hpa_without_metric(objects, hpa))
        .chain(deployments.filter_map(|deployment| stopped(objects, deployment)))
        .collect()
}

fn hpa_without_metric(objects: &NamespaceObjects, hpa: &HorizontalPodAutoscaler) -> Option<Finding> {
    let external = hpa.spec.metrics.iter().flatten().filter_map(|metric| metric.external.as_ref());
    let mut named_service = external.filter_map(|source| {
        let labels = source.metric.selector.as_ref()?.match_labels.as_ref()?;
        labels.contains_key(SERVICE_SELECTOR).then_some(source.metric.name.as_str())
    });
    let is_labelled = objects.target(&target_of(hpa)).is_some_and(|target| is_labelled(target.template));
    let object = format!("HorizontalPodAutoscaler {}/{}", objects.name, hpa.name_any());
    let fix = format!(
        "use the metric {METRIC_CONCURRENCY}, {METRIC_RPS} or {METRIC_DESIRED} with the selector \
         service=NAME, or annotate it with {GROUP}/metric: none and {GROUP}/service"
    );
    if let Some(metric) = named_service.next().filter(|_| is_labelled) {
        let problem = format!("its metric {metric} is not one of Rouse's, so Rouse does not follow it");
        return Some(Finding::error(object, "NoMetric", problem, fix));
    }
    let prefix = format!("{GROUP}/");
    let annotation = hpa.annotations().keys().find(|key| key.starts_with(&prefix))?;
    let without_metric = || {
        let problem =
            format!("it has the annotation {annotation} and no metric of Rouse, so Rouse does not follow it");
        (!has_object_metric(hpa)).then(|| ("NoMetric".to_owned(), problem))
    };
    let (reason, problem) = warning(objects, hpa).or_else(without_metric)?;
    Some(Finding::error(object, &reason, problem, fix))
}

/// A metric of the API custom.metrics.k8s.io. A new HPA with one has no PodAutoscaler for a moment.
fn has_object_metric(hpa: &HorizontalPodAutoscaler) -> bool {
    let mut metrics = hpa.spec.metrics.iter().flatten().filter_map(|metric| metric.object.as_ref());
    metrics
        .any(|source| [METRIC_CONCURRENCY, METRIC_RPS, METRIC_DESIRED].contains(&source.metric.name.as_str()))
}

/// The zero-scaler's own reason.
fn warning(objects: &NamespaceObjects, hpa: &HorizontalPodAutoscaler) -> Option<(String, String)> {
    let event = objects.last_warning("HorizontalPodAutoscaler", &hpa.name_any(), "zero-scaler")?;
    Some((event.reason.clone()?, event.note.clone()?))
}

fn stopped(objects: &NamespaceObjects, deployment: &Deployment) -> Option<Finding> {
    let target = ("Deployment".to_owned(), deployment.name_any());
    let of_autoscalers = objects.autoscalers.iter().map(|it| &it.spec.scale_target_ref.name);
    let of_hpas = objects.hpas.iter().map(|hpa| &hpa.spec.scale_target_ref.name);
    let scaled: BTreeSet<&String> = of_autoscalers.chain(of_hpas).collect();
    let is_stopped = deployment.spec.replicas == Some(0) && is_labelled(&deployment.spec.template);
    (is_stopped && !scaled.contains(&target.1)).then(|| {
        let problem = "it has size 0, its pods are labelled for the sidecar, and no HPA or PodAutoscaler \
                       names it: no request wakes it";
        let fix = format!(
            "create the HPA (kubectl rouse init deployment/{name} --namespace {namespace} prints it), or \
             kubectl --namespace {namespace} scale deployment {name} --replicas 1",
            name = target.1,
            namespace = objects.name
        );
        Finding::warning(format!("Deployment {}/{}", objects.name, target.1), "NotManaged", problem, fix)
    })
}
