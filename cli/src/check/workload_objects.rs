//! WorkloadObjects: one workload with everything that belongs to it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, Scaler};
use autoscaler::contract::{INJECT_LABEL, QUEUE_PROXY};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;

use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;
use super::front_door::FrontDoor;

/// One workload.
#[derive(Clone, Debug)]
pub struct WorkloadObjects {
    /// Its namespace and name.
    pub key: Key,
    /// Version of the API server.
    pub version: ClusterVersion,
    /// Its PodAutoscaler; none if its HPA is not followed.
    pub autoscaler: Option<PodAutoscaler>,
    /// The HPA of its name.
    pub hpa: Option<HorizontalPodAutoscaler>,
    /// Names of other HPAs on the same target.
    pub other_hpas: Vec<String>,
    /// The last warning about the HPA, if it is not followed.
    pub hpa_warning: Option<(String, String)>,
    /// Kind and name of its target.
    pub target: (String, String),
    /// The pod template of a Deployment or StatefulSet.
    pub template: Option<PodTemplateSpec>,
    /// Its pods.
    pub pods: Vec<Pod>,
    /// Whether its pods need a sidecar.
    pub has_sidecar: bool,
    /// Name of its Service, if any object has it.
    pub service_name: Option<String>,
    /// Its Service.
    pub service: Fetched<Service>,
    /// The front doors of its namespace.
    pub front_doors: Vec<FrontDoor>,
    /// The NetworkPolicies of its namespace.
    pub network_policies: Vec<NetworkPolicy>,
    /// Pods of the metrics-adapter, which read statistics.
    pub collectors: Vec<Peer>,
}

/// A pod that connects to the workload's pods.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its namespace.
    pub namespace: String,
    /// The namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its address; `None` if it is unknown.
    pub address: Option<IpAddr>,
}

// === impl WorkloadObjects ===

impl WorkloadObjects {
    /// Whether an HPA scales it on a metric of Rouse.
    pub fn is_scaled_by_hpa(&self) -> bool {
        self.autoscaler.as_ref().is_none_or(|autoscaler| autoscaler.spec.scaler == Scaler::Hpa)
    }

    /// Whether its template is labelled for the sidecar and does not contain it.
    pub fn needs_injection(&self) -> bool {
        self.has_sidecar
            && self.template.as_ref().is_some_and(|template| {
                is_labelled(template) && template.spec.as_ref().is_none_or(|spec| sidecar_of(spec).is_none())
            })
    }

    /// Its target, as findings name it.
    pub fn target_name(&self) -> String {
        let (kind, name) = &self.target;
        format!("{kind} {}/{name}", self.key.namespace)
    }

    /// `kind/name` of its target, as kubectl takes it.
    pub fn target_argument(&self) -> String {
        let (kind, name) = &self.target;
        format!("{}/{name}", kind.to_lowercase())
    }
}

/// Whether a template has the label that requests the sidecar.
pub fn is_labelled(template: &PodTemplateSpec) -> bool {
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    labels.is_some_and(|labels| labels.get(INJECT_LABEL).is_some_and(|value| value == "true"))
}

/// The sidecar of a pod.
pub fn sidecar_of(pod: &PodSpec) -> Option<&Container> {
    let mut all = pod.init_containers.iter().flatten().chain(&pod.containers);
    all.find(|container| container.name == QUEUE_PROXY)
}
