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
use front_doors::Gateways;
use listing::Lister;

/// Reads namespaces, with what is read once for all of them.
pub(super) struct NamespaceReader<'a> {
    lister: Lister<'a>,
    gateways: Gateways,
    /// Of all namespaces, or of the one that the user chose.
    monitors: Vec<ServiceMonitor>,
}

// === impl NamespaceReader ===

impl<'a> NamespaceReader<'a> {
    /// Adds objects that could not be read to `unchecked`.
    pub(super) async fn new(session: &'a Session, unchecked: Vec<String>) -> Self {
        let mut lister = Lister::new(session, unchecked).await;
        let gateways = Gateways::read(&mut lister).await;
        let monitors = lister.dynamic(session.only_namespace.as_deref(), &service_monitor::kind()).await;
        let monitors = monitors.iter().flatten().filter_map(ServiceMonitor::new).collect();
        Self { lister, gateways, monitors }
    }

    /// The objects that could not be read.
    pub(super) fn into_unchecked(self) -> Vec<String> {
        self.lister.unchecked
    }

    /// The namespace of the named workload; else each one with a PodAutoscaler or an HPA.
    pub(super) async fn namespaces(&mut self, only: Option<&Key>) -> BTreeSet<String> {
        let session = self.lister.session;
        if let Some(key) = only {
            return [key.namespace.to_string()].into();
        }
        if let Some(namespace) = &session.only_namespace {
            return [namespace.clone()].into();
        }
        let autoscalers = self.lister.known::<PodAutoscaler>(&session.selected(), "PodAutoscalers").await;
        let hpas: Option<Vec<HorizontalPodAutoscaler>> =
            self.lister.known(&session.selected(), "HorizontalPodAutoscalers").await;
        let autoscalers = autoscalers.iter().flatten().filter_map(ResourceExt::namespace);
        autoscalers
            .chain(hpas.iter().flatten().filter_map(ResourceExt::namespace))
            .filter(|namespace| *namespace != session.system_namespace)
            .collect()
    }

    /// Reads all objects of a namespace.
    pub(super) async fn read(&mut self, namespace: &str) -> NamespaceObjects {
        let lister = &mut self.lister;
        let object = Api::all(lister.session.client.clone()).get(namespace).await.into();
        NamespaceObjects {
            name: namespace.to_owned(),
            object,
            autoscalers: lister.list(namespace, "PodAutoscalers").await,
            metrics: lister.list(namespace, "Metrics").await,
            hpas: lister.list(namespace, "HorizontalPodAutoscalers").await,
            events: lister.list(namespace, "events").await,
            deployments: lister.known_in(namespace, "Deployments").await,
            stateful_sets: lister.known_in(namespace, "StatefulSets").await,
            services: lister.known_in(namespace, "Services").await,
            slices: lister.list(namespace, "EndpointSlices").await,
            pods: lister.list(namespace, "pods").await,
            front_doors: self.gateways.front_doors(lister, namespace).await,
            inference_pools: inference_pools(lister, namespace).await,
            service_monitors: self.monitors.iter().filter(|it| it.is_for(namespace)).cloned().collect(),
            peer_authentications: peer_authentications(lister, namespace).await,
            network_policies: lister.list(namespace, "NetworkPolicies").await,
            disruption_budgets: lister.list(namespace, "PodDisruptionBudgets").await,
            other_scalers: other_scalers(lister, namespace).await,
        }
    }
}

/// Of the present group and the one before, both of which a cluster may have.
async fn inference_pools(lister: &mut Lister<'_>, namespace: &str) -> Vec<InferencePool> {
    let mut pools = Vec::new();
    for (group, version) in inference_pool::GROUPS {
        let kind = GroupVersionKind::gvk(group, version, inference_pool::KIND);
        let objects = lister.dynamic(Some(namespace), &kind).await.unwrap_or_default();
        pools.extend(objects.iter().map(|object| InferencePool::new(object.name_any(), &object.data)));
    }
    pools
}

/// Of the namespace, and of the mesh.
async fn peer_authentications(lister: &mut Lister<'_>, namespace: &str) -> Vec<PeerAuthentication> {
    let namespaces: BTreeSet<&str> = [namespace, peer_authentication::ROOT_NAMESPACE].into();
    let mut policies = Vec::new();
    for namespace in namespaces {
        let objects = lister.dynamic(Some(namespace), &peer_authentication::kind()).await;
        policies.extend(objects.iter().flatten().map(PeerAuthentication::new));
    }
    policies
}

/// Without these programs the cluster has no such kinds.
async fn other_scalers(lister: &mut Lister<'_>, namespace: &str) -> Vec<OtherScaler> {
    let mut scalers = Vec::new();
    for kind in other_scalers::KINDS {
        let objects = lister.dynamic(Some(namespace), &kind.of_group()).await.unwrap_or_default();
        scalers.extend(objects.iter().filter_map(|object| other_scalers::scaler(&kind, namespace, object)));
    }
    scalers
}
