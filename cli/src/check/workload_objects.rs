//! WorkloadObjects: one workload with everything that belongs to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, Scaler, condition, sidecar_ports_of_template};
use autoscaler::contract::SCALE_TO_ZERO;
use autoscaler::contract::sidecar_ports::SidecarPorts;
use autoscaler::findings::sidecar::{is_labelled, written};
use autoscaler::settings::{AutoscalerConfig, Settings};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec, Service};
use kube::ResourceExt;

use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;
use super::namespace_objects::{NamespaceObjects, named};
use super::selection::network_policy::Peer;

#[derive(Clone, Debug)]
pub struct WorkloadObjects {
    /// Its namespace and name.
    pub key: Key,
    /// All objects of its namespace, shared by the workloads there.
    pub namespace: Arc<NamespaceObjects>,
    pub shared: Arc<SharedFacts>,
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
    pub pods: Vec<Pod>,
    /// Whether its pods need a sidecar.
    pub has_sidecar: bool,
    /// Name of its Service, if any object has it.
    pub service_name: Option<String>,
    pub service: Fetched<Service>,
}

/// Facts about the cluster that the checks of workloads use.
#[derive(Clone, Debug)]
pub struct SharedFacts {
    /// The time of the check.
    pub now: Timestamp,
    /// Version of the API server.
    pub version: ClusterVersion,
    /// Whether a zero-scaler is available, or may be.
    pub has_zero_scaler: bool,
    /// Pods of the metrics-adapter, which read statistics.
    pub collectors: Vec<Peer>,
    /// Pods of the activator, which forward requests.
    pub activators: Vec<Peer>,
    /// Whether these pods are in an Istio mesh.
    pub activators_in_mesh: bool,
    /// Image of the sidecar that the admission policy adds, if the policy could be read.
    pub sidecar_image: Option<String>,
}

// === impl WorkloadObjects ===

impl WorkloadObjects {
    /// Whether an HPA scales it on a metric of Rouse.
    pub fn is_scaled_by_hpa(&self) -> bool {
        self.scaler() == Scaler::Hpa
    }

    /// What writes its sizes above zero.
    pub fn scaler(&self) -> Scaler {
        self.autoscaler.as_ref().map_or(Scaler::Hpa, |autoscaler| autoscaler.spec.scaler)
    }

    /// Whether the conditions of its PodAutoscaler are those that a zero-scaler writes.
    pub fn is_reconciled(&self) -> bool {
        let status = self.autoscaler.as_ref().and_then(|autoscaler| autoscaler.status.as_ref());
        self.shared.has_zero_scaler && status.is_some_and(|it| condition(&it.conditions, "Ready").is_some())
    }

    /// Its settings, by its PodAutoscaler or HPA.
    pub fn settings(&self) -> Settings {
        let config = AutoscalerConfig::default();
        if let Some(autoscaler) = &self.autoscaler {
            return autoscaler.spec.settings(&config, autoscaler.annotations()).0;
        }
        let none = BTreeMap::new();
        Settings::resolve(&config, self.hpa.as_ref().map_or(&none, ResourceExt::annotations)).0
    }

    /// Whether it may go to zero.
    pub fn goes_to_zero(&self) -> bool {
        let by_hpa = || {
            let annotations = self.hpa.as_ref().map(ResourceExt::annotations);
            annotations.and_then(|it| it.get(SCALE_TO_ZERO)).is_some_and(|value| value == "true")
        };
        self.autoscaler.as_ref().map_or_else(by_hpa, |autoscaler| autoscaler.spec.scale_to_zero)
    }

    /// Whether its template is labelled for the sidecar and does not contain it.
    pub fn needs_injection(&self) -> bool {
        self.has_sidecar && self.template.as_ref().is_some_and(|it| is_labelled(it) && written(it).is_none())
    }

    /// The ports of the sidecar in its pods.
    pub fn sidecar_ports(&self) -> SidecarPorts {
        self.template.as_ref().map(sidecar_ports_of_template).unwrap_or_default()
    }

    /// Labels of its pods' template.
    pub fn pod_labels(&self) -> Option<&BTreeMap<String, String>> {
        self.template.as_ref()?.metadata.as_ref()?.labels.as_ref()
    }

    /// Annotations of its pods' template.
    pub fn pod_annotations(&self) -> impl Iterator<Item = (&String, &String)> {
        let metadata = self.template.iter().filter_map(|template| template.metadata.as_ref());
        metadata.filter_map(|metadata| metadata.annotations.as_ref()).flatten()
    }

    /// Its target, if that is a Deployment that could be read.
    pub fn deployment(&self) -> Option<&Deployment> {
        let (kind, name) = &self.target;
        named(self.namespace.deployments.as_ref().filter(|_| kind == "Deployment")?, name)
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
