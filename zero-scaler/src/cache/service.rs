//! Service: the fields of a Service that are read here.
//!
//! The fields have the API's names and meaning. Writes are never made from this type: server-side
//! apply sends owned fields only, so the missing fields are not cleared.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use autoscaler::contract::WORKLOAD_LABEL;
use autoscaler::findings::service::ServiceFields;
use k8s_openapi::api::core::v1::{Service as CoreService, ServicePort};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

const CLIENT_IP: &str = "ClientIP";
const LOCAL: &str = "Local";
/// The annotations by which Kubernetes divides endpoints among zones. The second is deprecated, and
/// has precedence.
const TOPOLOGY_ANNOTATIONS: [&str; 2] =
    ["service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"];

#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(inherit = "CoreService")]
pub struct Service {
    /// Name, uid and owners.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The trimmed spec.
    pub spec: Option<ServiceSpec>,
}

/// The trimmed spec of a Service.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP` if absent.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// The first address, or the string `None`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// The addresses, one per family.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Option<Vec<String>>,
    /// `IPv4`, `IPv6`.
    pub ip_families: Option<Vec<String>>,
    /// Single stack or dual stack.
    pub ip_family_policy: Option<String>,
    /// Labels of its pods; empty if its endpoints are written by another controller.
    pub selector: Option<BTreeMap<String, String>>,
    /// `ClientIP`, or absent.
    pub session_affinity: Option<String>,
    /// `Local`, or absent.
    pub internal_traffic_policy: Option<String>,
    /// `Local`, or absent.
    pub external_traffic_policy: Option<String>,
    /// Whether Kubernetes publishes pods that are not ready.
    pub publish_not_ready_addresses: Option<bool>,
    /// Which endpoints clients prefer.
    pub traffic_distribution: Option<String>,
    pub ports: Option<Vec<ServicePort>>,
}

// === impl Service ===

impl Service {
    pub fn addresses(&self) -> Vec<IpAddr> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
        all.filter_map(|address| address.parse().ok()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// The fields that are checked.
    pub fn fields(&self) -> ServiceFields<'_> {
        let name = self.metadata.name.as_deref().unwrap_or_default();
        let Some(spec) = &self.spec else { return ServiceFields { name, ..ServiceFields::default() } };
        ServiceFields {
            name,
            type_: spec.type_.as_deref(),
            cluster_ip: spec.cluster_ip.as_deref(),
            selector: spec.selector.as_ref(),
            session_affinity: spec.session_affinity.as_deref(),
            internal_traffic_policy: spec.internal_traffic_policy.as_deref(),
            publishes_not_ready: spec.publish_not_ready_addresses == Some(true),
            ports: spec.ports.as_deref().unwrap_or_default(),
        }
    }

    /// Whether each client stays with one endpoint.
    pub fn has_client_ip_affinity(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.session_affinity.as_deref() == Some(CLIENT_IP))
    }

    /// Whether clients in the cluster reach only endpoints on their own node.
    pub fn has_local_traffic_policy(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.internal_traffic_policy.as_deref() == Some(LOCAL))
    }

    /// Whether clients outside of the cluster reach only endpoints on the node to which they are
    /// routed. Load balancers leave out nodes without one.
    pub fn has_local_external_policy(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.external_traffic_policy.as_deref() == Some(LOCAL))
    }

    /// The annotations that set how endpoints are divided among zones.
    pub fn topology_annotations(&self) -> BTreeMap<&str, &str> {
        let annotations = self.metadata.annotations.iter().flatten();
        let of_topology = annotations.filter(|(name, _)| TOPOLOGY_ANNOTATIONS.contains(&name.as_str()));
        of_topology.map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Whether Kubernetes divides the endpoints among the zones.
    pub fn has_topology_mode(&self) -> bool {
        let annotations = self.topology_annotations();
        let in_force = TOPOLOGY_ANNOTATIONS.iter().rev().find_map(|name| annotations.get(name));
        in_force.is_some_and(|value| value.eq_ignore_ascii_case("auto"))
    }

    /// A copy without unused metadata. The workload label stays: the reconciler compares it.
    pub(crate) fn trimmed(&self) -> Self {
        let meta = &self.metadata;
        let labels = meta.labels.iter().flatten().filter(|(name, _)| *name == WORKLOAD_LABEL);
        let labels: BTreeMap<_, _> = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        let annotations: BTreeMap<String, String> =
            self.topology_annotations().into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let metadata = ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            deletion_timestamp: meta.deletion_timestamp.clone(),
            owner_references: meta.owner_references.clone(),
            labels: (!labels.is_empty()).then_some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            ..ObjectMeta::default()
        };
        let mut spec = self.spec.clone();
        if let Some(spec) = &mut spec {
            // The API's defaults are dropped.
            spec.session_affinity = spec.session_affinity.take().filter(|affinity| affinity == CLIENT_IP);
            spec.internal_traffic_policy = spec.internal_traffic_policy.take().filter(|p| p == LOCAL);
            spec.external_traffic_policy = spec.external_traffic_policy.take().filter(|p| p == LOCAL);
        }
        Self { metadata, spec }
    }
}
