//! NamespaceObjects: the objects of one namespace, and the workloads among them.

use std::collections::{BTreeMap, BTreeSet};

use autoscaler::Key;
use autoscaler::api::{Metric, PodAutoscaler};
use autoscaler::contract::{GROUP, METRIC_DESIRED, SERVICE, SERVICE_SELECTOR};
use autoscaler::settings::{AutoscalerConfig, SidecarMode};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Resource, ResourceExt};

use super::selection::matches;
use crate::check::cluster_objects::{ClusterObjects, METRICS_ADAPTER};
use crate::check::fetched::Fetched;
use crate::check::front_door::FrontDoor;
use crate::check::workload_objects::Peer;
use crate::check::workload_objects::WorkloadObjects;

/// Annotation on an HPA or PodAutoscaler: whether pods have a sidecar.
const SIDECAR: &str = "sidecar";
/// Label of the pods of each part of Rouse.
const NAME_LABEL: &str = "app.kubernetes.io/name";

/// The objects of one namespace. A list that could not be read is empty.
#[derive(Clone, Debug, Default)]
pub struct NamespaceObjects {
    /// The namespace.
    pub namespace: String,
    /// PodAutoscalers.
    pub autoscalers: Vec<PodAutoscaler>,
    /// Metrics.
    pub metrics: Vec<Metric>,
    /// HPAs.
    pub hpas: Vec<HorizontalPodAutoscaler>,
    /// Warnings about HPAs.
    pub events: Vec<Event>,
    /// Deployments.
    pub deployments: Vec<Deployment>,
    /// StatefulSets.
    pub stateful_sets: Vec<StatefulSet>,
    /// Services; `None` if they could not be read.
    pub services: Option<Vec<Service>>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Ingresses and routes of the Gateway API.
    pub front_doors: Vec<FrontDoor>,
    /// NetworkPolicies.
    pub network_policies: Vec<NetworkPolicy>,
}

/// What the spec of a target has; nothing for kinds that are not read.
struct Target<'a> {
    selector: Option<&'a LabelSelector>,
    template: Option<&'a PodTemplateSpec>,
}

/// All workloads of a namespace: its PodAutoscalers, and HPAs with a metric of Rouse that have none.
pub fn workloads_of(objects: &NamespaceObjects, cluster: &ClusterObjects) -> Vec<WorkloadObjects> {
    let of_autoscalers = objects.autoscalers.iter().map(ResourceExt::name_any);
    let of_hpas =
        objects.hpas.iter().filter(|hpa| service_of_metric(hpa).is_some()).map(ResourceExt::name_any);
    let names: BTreeSet<String> = of_autoscalers.chain(of_hpas).collect();
    names.into_iter().filter_map(|name| workload(objects, cluster, name)).collect()
}

fn workload(objects: &NamespaceObjects, cluster: &ClusterObjects, name: String) -> Option<WorkloadObjects> {
    let autoscaler = named(&objects.autoscalers, &name);
    let hpa = named(&objects.hpas, &name);
    let target = autoscaler
        .map(|it| (it.spec.scale_target_ref.kind.clone(), it.spec.scale_target_ref.name.clone()))
        .or_else(|| hpa.map(target_of))?;
    let found = objects.target(&target);
    let service_name = autoscaler
        .map(|it| it.spec.service.clone())
        .or_else(|| service_of_metric(hpa?))
        .filter(|it| !it.is_empty());
    let service = match (&service_name, &objects.services) {
        (Some(name), Some(services)) => {
            named(services, name).cloned().map_or(Fetched::NotFound, Fetched::Found)
        }
        _ => Fetched::Unreadable(String::new()),
    };
    Some(WorkloadObjects {
        version: cluster.version,
        other_hpas: objects
            .hpas
            .iter()
            .filter(|other| other.name_any() != name && hpa.is_some() && target_of(other) == target)
            .map(ResourceExt::name_any)
            .collect(),
        hpa_warning: autoscaler.is_none().then(|| objects.last_warning(&name)).flatten(),
        pods: found.selector.map_or_else(Vec::new, |selector| objects.pods_of(selector)),
        template: found.template.cloned(),
        has_sidecar: has_sidecar(named(&objects.metrics, &name), autoscaler, hpa),
        service_name,
        service,
        front_doors: objects.front_doors.clone(),
        network_policies: objects.network_policies.clone(),
        collectors: collectors(cluster),
        autoscaler: autoscaler.cloned(),
        hpa: hpa.cloned(),
        target,
        key: Key::new(&objects.namespace, &name),
    })
}

// === impl NamespaceObjects ===

impl NamespaceObjects {
    fn target(&self, (kind, name): &(String, String)) -> Target<'_> {
        let found = match kind.as_str() {
            "Deployment" => named(&self.deployments, name).map(|it| (&it.spec.selector, &it.spec.template)),
            "StatefulSet" => {
                named(&self.stateful_sets, name).map(|it| (&it.spec.selector, &it.spec.template))
            }
            _ => None,
        };
        Target {
            selector: found.map(|(selector, _)| selector),
            template: found.map(|(_, template)| template),
        }
    }

    fn pods_of(&self, selector: &LabelSelector) -> Vec<Pod> {
        let ending = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        let pods = self.pods.iter().filter(|pod| !ending(pod) && matches(selector, pod.labels()));
        pods.cloned().collect()
    }

    /// Reason and note of the last warning about an HPA.
    fn last_warning(&self, hpa: &str) -> Option<(String, String)> {
        let about = self.events.iter().filter(|event| {
            let object = event.regarding.as_ref();
            object.is_some_and(|it| {
                it.kind.as_deref() == Some("HorizontalPodAutoscaler") && it.name.as_deref() == Some(hpa)
            }) && event.type_.as_deref() == Some("Warning")
                && event.reporting_controller.as_deref().is_some_and(|by| by.contains("zero-scaler"))
        });
        let last = about.max_by_key(|event| event.metadata.creation_timestamp.as_ref().map(|time| time.0))?;
        Some((last.reason.clone()?, last.note.clone()?))
    }
}

fn named<'a, K: Resource>(objects: &'a [K], name: &str) -> Option<&'a K> {
    objects.iter().find(|object| object.meta().name.as_deref() == Some(name))
}

fn target_of(hpa: &HorizontalPodAutoscaler) -> (String, String) {
    (hpa.spec.scale_target_ref.kind.clone(), hpa.spec.scale_target_ref.name.clone())
}

/// The Service of an HPA with a metric of Rouse, empty if the metric names none; `None` for other
/// HPAs.
fn service_of_metric(hpa: &HorizontalPodAutoscaler) -> Option<String> {
    if let Some(service) = hpa.annotations().get(SERVICE) {
        return Some(service.clone());
    }
    let external = hpa.spec.metrics.iter().flatten().filter_map(|metric| metric.external.as_ref());
    external.into_iter().find_map(|source| {
        let name = source.metric.name.as_str();
        let labels: Option<&BTreeMap<String, String>> =
            source.metric.selector.as_ref().and_then(|selector| selector.match_labels.as_ref());
        let service = labels.and_then(|labels| labels.get(SERVICE_SELECTOR));
        let is_rouse = name == METRIC_DESIRED
            || name.parse::<autoscaler::api::MetricName>().is_ok() && (service.is_some() || labels.is_none());
        is_rouse.then(|| service.cloned().unwrap_or_default())
    })
}

/// The Metric has the value in effect. Without one, the spec and annotations do.
fn has_sidecar(
    metric: Option<&Metric>,
    autoscaler: Option<&PodAutoscaler>,
    hpa: Option<&HorizontalPodAutoscaler>,
) -> bool {
    if let Some(metric) = metric {
        return metric.spec.sidecar.is_required();
    }
    if let Some(autoscaler) = autoscaler {
        let (settings, _) = autoscaler.spec.settings(&AutoscalerConfig::default(), autoscaler.annotations());
        return autoscaler.spec.sidecar(&settings) == SidecarMode::Required;
    }
    let annotation = format!("{GROUP}/{SIDECAR}");
    hpa.is_none_or(|hpa| hpa.annotations().get(&annotation).is_none_or(|value| value != "false"))
}

/// The pods of the metrics-adapter. Without any, or without the right to read them, one as the
/// installation would create it.
fn collectors(cluster: &ClusterObjects) -> Vec<Peer> {
    let namespace = &cluster.system_namespace;
    let given = [("kubernetes.io/metadata.name".to_owned(), namespace.clone())].into();
    let namespace_labels = cluster.system.found().map_or(given, |namespace| namespace.labels().clone());
    let expected: BTreeMap<_, _> = [(NAME_LABEL.to_owned(), METRICS_ADAPTER.to_owned())].into();
    let peer = |labels: &BTreeMap<String, String>, address| Peer {
        namespace: namespace.clone(),
        namespace_labels: namespace_labels.clone(),
        labels: labels.clone(),
        address,
    };
    let pods = cluster.pods.found().into_iter().flatten();
    let adapters: Vec<Peer> = pods
        .filter(|pod| pod.labels().get(NAME_LABEL) == expected.get(NAME_LABEL))
        .map(|pod| peer(pod.labels(), pod.status.as_ref().and_then(|it| it.pod_ip.as_ref()?.parse().ok())))
        .collect();
    if adapters.is_empty() { vec![peer(&expected, None)] } else { adapters }
}
