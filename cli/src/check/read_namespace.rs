//! Reads the objects of the namespaces that have workloads.

mod front_doors;
mod listing;
mod other_scalers;

use std::collections::BTreeSet;

use autoscaler::Key;
use autoscaler::api::PodAutoscaler;
use autoscaler::findings::inference_pool::{self, InferencePool};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::GroupVersionKind;
use kube::{Api, ResourceExt};

use super::namespace_objects::{NamespaceObjects, OtherScaler};
use super::peer_authentication::{self, PeerAuthentication};
use super::selection::service_monitor::{self, ServiceMonitor};
use crate::connection::Session;
use crate::workloads::list_all;
pub(super) use front_doors::Gateways;
pub(super) use listing::ApiGroups;
use listing::{dynamic, keep, known, list, objects};

/// The namespace of the named workload; else each one with a PodAutoscaler or an HPA.
pub(super) async fn namespaces(
    session: &Session,
    only: Option<&Key>,
    unchecked: &mut Vec<String>,
) -> BTreeSet<String> {
    if let Some(key) = only {
        return [key.namespace.to_string()].into();
    }
    if let Some(namespace) = &session.only_namespace {
        return [namespace.clone()].into();
    }
    let autoscalers: Vec<PodAutoscaler> =
        keep(list_all(&session.selected()).await, "PodAutoscalers", unchecked);
    let hpas: Vec<HorizontalPodAutoscaler> =
        keep(list_all(&session.selected()).await, "HorizontalPodAutoscalers", unchecked);
    let autoscalers = autoscalers.iter().filter_map(ResourceExt::namespace);
    autoscalers
        .chain(hpas.iter().filter_map(ResourceExt::namespace))
        .filter(|namespace| *namespace != session.system_namespace)
        .collect()
}

/// Reads all objects of a namespace.
pub(super) async fn read(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    gateways: &Gateways,
    monitors: &[ServiceMonitor],
    unchecked: &mut Vec<String>,
) -> NamespaceObjects {
    let what = |kind: &str| format!("{kind} in {namespace}");
    let object = Api::all(session.client.clone()).get(namespace).await.into();
    NamespaceObjects {
        name: namespace.to_owned(),
        object,
        autoscalers: keep(list(session, namespace).await, &what("PodAutoscalers"), unchecked),
        metrics: keep(list(session, namespace).await, &what("Metrics"), unchecked),
        hpas: keep(list(session, namespace).await, &what("HorizontalPodAutoscalers"), unchecked),
        events: keep(list(session, namespace).await, &what("events"), unchecked),
        deployments: known(list(session, namespace).await, &what("Deployments"), unchecked),
        stateful_sets: known(list(session, namespace).await, &what("StatefulSets"), unchecked),
        services: known(list(session, namespace).await, &what("Services"), unchecked),
        slices: keep(list(session, namespace).await, &what("EndpointSlices"), unchecked),
        pods: keep(list(session, namespace).await, &what("pods"), unchecked),
        front_doors: gateways.front_doors(session, namespace, unchecked).await,
        inference_pools: inference_pools(session, namespace, groups, unchecked).await,
        service_monitors: monitors.iter().filter(|it| it.is_for(namespace)).cloned().collect(),
        peer_authentications: peer_authentications(session, namespace, groups, unchecked).await,
        network_policies: keep(list(session, namespace).await, &what("NetworkPolicies"), unchecked),
        disruption_budgets: keep(list(session, namespace).await, &what("PodDisruptionBudgets"), unchecked),
        other_scalers: other_scalers(session, namespace, groups, unchecked).await,
    }
}

/// Of all namespaces, or of the one that the user chose.
pub(super) async fn service_monitors(
    session: &Session,
    groups: &ApiGroups,
    unchecked: &mut Vec<String>,
) -> Vec<ServiceMonitor> {
    if !groups.may_have(service_monitor::GROUP) {
        return Vec::new();
    }
    let kind = GroupVersionKind::gvk(service_monitor::GROUP, service_monitor::VERSION, service_monitor::KIND);
    let namespace = session.only_namespace.as_deref();
    let found = objects(session, namespace, &kind, service_monitor::PLURAL, unchecked).await;
    found.iter().flatten().filter_map(ServiceMonitor::new).collect()
}

/// Of the present group and the one before, both of which a cluster may have.
async fn inference_pools(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    unchecked: &mut Vec<String>,
) -> Vec<InferencePool> {
    let mut pools = Vec::new();
    for (group, version) in inference_pool::GROUPS {
        let kind = GroupVersionKind::gvk(group, version, inference_pool::KIND);
        let objects = dynamic(session, namespace, groups, &kind, inference_pool::PLURAL, unchecked).await;
        pools.extend(objects.iter().map(|object| InferencePool::new(object.name_any(), &object.data)));
    }
    pools
}

/// Of the namespace, and of the mesh.
async fn peer_authentications(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    unchecked: &mut Vec<String>,
) -> Vec<PeerAuthentication> {
    let kind = GroupVersionKind::gvk(
        peer_authentication::GROUP,
        peer_authentication::VERSION,
        peer_authentication::KIND,
    );
    let namespaces: BTreeSet<&str> = [namespace, peer_authentication::ROOT_NAMESPACE].into();
    let mut policies = Vec::new();
    for namespace in namespaces {
        let plural = peer_authentication::PLURAL;
        let objects = dynamic(session, namespace, groups, &kind, plural, unchecked).await;
        policies.extend(objects.iter().map(PeerAuthentication::new));
    }
    policies
}

/// Without these programs the cluster has no such kinds.
async fn other_scalers(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    unchecked: &mut Vec<String>,
) -> Vec<OtherScaler> {
    let mut scalers = Vec::new();
    for kind in other_scalers::KINDS {
        let objects = dynamic(session, namespace, groups, &kind.of_group(), kind.plural, unchecked).await;
        scalers.extend(objects.iter().filter_map(|object| other_scalers::scaler(&kind, namespace, object)));
    }
    scalers
}
