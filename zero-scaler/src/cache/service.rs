//! Services, without what nobody here reads.
//!
//! The fields have the names and the meaning of the API's own type. What is written is never made of this: applies send the
//! fields that are ours, and a reader of a few fields does no harm to the others.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use autoscaler::contract::WORKLOAD_LABEL;
use k8s_openapi::api::core::v1::{Service as Whole, ServicePort};
use kube::Resource;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};

const CLIENT_IP: &str = "ClientIP";
const LOCAL: &str = "Local";

/// A Service.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Resource)]
#[resource(inherit = "Whole")]
pub struct Service {
    /// Its name, its owners.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What it should be.
    pub spec: Option<ServiceSpec>,
}

/// What a Service should be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// ClusterIP, unless it says otherwise.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// The first of its addresses, or `None` as a word.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// All of its addresses, one of each family.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Option<Vec<String>>,
    /// IPv4, IPv6.
    pub ip_families: Option<Vec<String>>,
    /// One family or two.
    pub ip_family_policy: Option<String>,
    /// Its pods, by their labels; empty where somebody else writes its endpoints.
    pub selector: Option<BTreeMap<String, String>>,
    /// `ClientIP` where a caller stays with the endpoint that it has.
    pub session_affinity: Option<String>,
    /// `Local` where callers in the cluster reach the endpoints of their own node alone.
    pub internal_traffic_policy: Option<String>,
    /// Its ports.
    pub ports: Option<Vec<ServicePort>>,
}

// === impl Service ===

impl Service {
    /// The addresses at which it can be asked.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let Some(spec) = &self.spec else { return Vec::new() };
        let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
        all.filter_map(|address| address.parse().ok()).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Whether a caller stays with the endpoint that it has.
    pub fn keeps_callers(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.session_affinity.as_deref() == Some(CLIENT_IP))
    }

    /// Whether callers in the cluster reach the endpoints of their own node alone.
    pub fn is_local(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.internal_traffic_policy.as_deref() == Some(LOCAL))
    }

    /// The same without metadata that nobody reads. Of the labels ours stay, by which a private Service is known to be as it
    /// should.
    pub(crate) fn trimmed(&self) -> Self {
        let meta = &self.metadata;
        let labels = meta.labels.iter().flatten().filter(|(name, _)| *name == WORKLOAD_LABEL);
        let labels: BTreeMap<_, _> = labels.map(|(name, value)| (name.clone(), value.clone())).collect();
        let metadata = ObjectMeta {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            deletion_timestamp: meta.deletion_timestamp.clone(),
            owner_references: meta.owner_references.clone(),
            labels: (!labels.is_empty()).then_some(labels),
            ..ObjectMeta::default()
        };
        let mut spec = self.spec.clone();
        if let Some(spec) = &mut spec {
            // What Kubernetes fills in says nothing.
            spec.session_affinity = spec.session_affinity.take().filter(|affinity| affinity == CLIENT_IP);
            spec.internal_traffic_policy = spec.internal_traffic_policy.take().filter(|p| p == LOCAL);
        }
        Self { metadata, spec }
    }
}
