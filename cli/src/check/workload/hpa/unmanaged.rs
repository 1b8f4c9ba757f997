//! HPAs and Deployments that were meant for Rouse and belong to no workload.
//!
//! An HPA is, if it has an annotation of Rouse, or scales pods that are labelled for the sidecar by
//! a metric with a selector that names a Service. A Deployment is, if its pods are labelled and it
//! has size 0.

use std::collections::BTreeSet;

use autoscaler::contract::SERVICE_SELECTOR;
use autoscaler::findings::hpa::{annotated_without_metric, named_service, rouse_metrics};
use autoscaler::findings::reasons::{CheckReason, Reason, description};
use autoscaler::findings::sidecar::is_labelled;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::ResourceExt;

use crate::check::finding::Finding;
use crate::check::namespace_objects::{NamespaceObjects, named};
use crate::check::workload::workload_list::{hpa_warning, target_of};

/// Findings about them.
pub fn without_workload(objects: &NamespaceObjects) -> Vec<Finding> {
    let hpas = objects.hpas.iter().filter(|hpa| {
        named_service(hpa, false).is_none() && named(&objects.autoscalers, &hpa.name_any()).is_none()
    });
    let deployments = objects.deployments.iter().flatten();
    hpas.filter_map(|hpa| hpa_without_metric(objects, hpa))
        .chain(deployments.filter_map(|deployment| stopped(objects, deployment)))
        .collect()
}

fn hpa_without_metric(objects: &NamespaceObjects, hpa: &HorizontalPodAutoscaler) -> Option<Finding> {
    let external = hpa.spec.metrics.iter().flatten().filter_map(|metric| metric.external.as_ref());
    let mut of_service = external.filter_map(|source| {
        let labels = source.metric.selector.as_ref()?.match_labels.as_ref()?;
        labels.contains_key(SERVICE_SELECTOR).then_some(source.metric.name.as_str())
    });
    let is_labelled = objects.target(&target_of(hpa)).is_some_and(|target| is_labelled(target.template));
    let object = format!("HorizontalPodAutoscaler {}/{}", objects.name, hpa.name_any());
    if let Some(metric) = of_service.next().filter(|_| is_labelled) {
        let problem = format!("its metric {metric} is not one of Rouse's, so Rouse does not follow it");
        return Some(Finding::error(object, Reason::NoMetric, problem));
    }
    let annotated = annotated_without_metric(hpa)?;
    let reported = hpa_warning(objects, &hpa.name_any());
    if let Some((row, note)) = reported.and_then(|(reason, note)| Some((description(&reason)?, note))) {
        return Some(Finding::error(object, row, note));
    }
    // A new HPA with a metric of the API custom.metrics.k8s.io has no PodAutoscaler for a moment.
    rouse_metrics(&hpa.spec, true).is_empty().then(|| Finding::of_problem(object, annotated))
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
        let object = format!("Deployment {}/{}", objects.name, target.1);
        Finding::warning(object, CheckReason::NotManaged, problem)
    })
}
