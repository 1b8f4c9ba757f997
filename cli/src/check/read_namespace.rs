//! Reads the objects of the namespaces that have workloads.

mod other_scalers;

use std::collections::BTreeSet;

use autoscaler::Key;
use autoscaler::api::PodAutoscaler;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Resource, ResourceExt};

use super::fetched::Fetched;
use super::front_door::FrontDoor;
use super::namespace_objects::{NamespaceObjects, OtherScaler};
use crate::connection::Session;
use crate::workloads::list_all;

/// Group of the Gateway API.
const GATEWAY: &str = "gateway.networking.k8s.io";
/// Kinds and resources of routes to Services.
const ROUTES: [(&str, &str); 2] = [("HTTPRoute", "httproutes"), ("GRPCRoute", "grpcroutes")];

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

/// API groups that the cluster serves; `None` if they could not be read. A user without rights on a
/// group gets 403 for it, also where it does not exist.
pub(super) struct ApiGroups(Option<BTreeSet<String>>);

// === impl ApiGroups ===

impl ApiGroups {
    pub(super) async fn read(session: &Session) -> Self {
        let groups = session.client.list_api_groups().await.ok();
        Self(groups.map(|list| list.groups.into_iter().map(|group| group.name).collect()))
    }

    fn may_have(&self, group: &str) -> bool {
        self.0.as_ref().is_none_or(|groups| groups.contains(group))
    }
}

/// Reads all objects of a namespace.
pub(super) async fn read(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
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
        front_doors: front_doors(session, namespace, groups, unchecked).await,
        network_policies: keep(list(session, namespace).await, &what("NetworkPolicies"), unchecked),
        disruption_budgets: keep(list(session, namespace).await, &what("PodDisruptionBudgets"), unchecked),
        other_scalers: other_scalers(session, namespace, groups, unchecked).await,
    }
}

/// A cluster without the Gateway API has no routes.
async fn front_doors(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    unchecked: &mut Vec<String>,
) -> Vec<FrontDoor> {
    let ingresses: Vec<Ingress> =
        keep(list(session, namespace).await, &format!("Ingresses in {namespace}"), unchecked);
    let mut doors: Vec<FrontDoor> = ingresses.iter().map(FrontDoor::of_ingress).collect();
    for (kind, plural) in ROUTES {
        let kind_of_group = GroupVersionKind::gvk(GATEWAY, "v1", kind);
        let routes = dynamic(session, namespace, groups, &kind_of_group, plural, unchecked).await;
        doors.extend(routes.iter().map(|route| FrontDoor::of_route(kind, route)));
    }
    doors
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

/// Objects of a kind that the cluster may not have.
async fn dynamic(
    session: &Session,
    namespace: &str,
    groups: &ApiGroups,
    kind: &GroupVersionKind,
    plural: &str,
    unchecked: &mut Vec<String>,
) -> Vec<DynamicObject> {
    if !groups.may_have(&kind.group) {
        return Vec::new();
    }
    let resource = ApiResource::from_gvk_with_plural(kind, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(session.client.clone(), namespace, &resource);
    keep(list_all(&api).await, &format!("{}s in {namespace}", kind.kind), unchecked)
}

async fn list<K>(session: &Session, namespace: &str) -> Result<Vec<K>, kube::Error>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    list_all(&Api::namespaced(session.client.clone(), namespace)).await
}

fn known<K>(result: Result<Vec<K>, kube::Error>, what: &str, unchecked: &mut Vec<String>) -> Option<Vec<K>> {
    let fetched = Fetched::from(result);
    unchecked.extend(fetched.unreadable(what));
    match fetched {
        Fetched::Found(objects) => Some(objects),
        Fetched::NotFound => Some(Vec::new()),
        Fetched::Unreadable(_) => None,
    }
}

fn keep<K>(result: Result<Vec<K>, kube::Error>, what: &str, unchecked: &mut Vec<String>) -> Vec<K> {
    known(result, what, unchecked).unwrap_or_default()
}
