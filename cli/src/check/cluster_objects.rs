//! ClusterObjects: what concerns all workloads. `read_cluster` reads it; the checks of
//! [`cluster`](super::cluster) and of workloads use it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Pod, PodSpec, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;

use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;

/// The APIService of external metrics.
pub const EXTERNAL_API: &str = "v1beta1.external.metrics.k8s.io";
/// The APIService of custom metrics.
pub const CUSTOM_API: &str = "v1beta2.custom.metrics.k8s.io";
/// The policy that adds the sidecar, and its binding.
pub const INJECTION: &str = "queue-proxy.autoscaling.rouse.dev";
/// The custom resources.
pub const CUSTOM_RESOURCES: [&str; 3] = [
    "metrics.autoscaling.rouse.dev",
    "podautoscalers.autoscaling.rouse.dev",
    "serverlessservices.autoscaling.rouse.dev",
];
/// The Deployments.
pub const METRICS_ADAPTER: &str = "metrics-adapter";
/// All Deployments.
pub const DEPLOYMENTS: [&str; 3] = ["activator", METRICS_ADAPTER, "zero-scaler"];
/// The Secret of the metrics-adapter's own certificate.
pub const OWN_SECRET: &str = "metrics-adapter-serving";
/// The variable with the directory of another issuer's certificate.
const MOUNTED: &str = "ROUSE_SERVING_CERTIFICATE";

/// Objects of the cluster and of the installation.
#[derive(Clone, Debug)]
pub struct ClusterObjects {
    /// The time of the check.
    pub now: Timestamp,
    /// Namespace of the installation.
    pub system_namespace: String,
    /// Version of the API server.
    pub version: ClusterVersion,
    /// [`EXTERNAL_API`].
    pub external_api: Fetched<APIService>,
    /// [`CUSTOM_API`].
    pub custom_api: Fetched<APIService>,
    /// [`CUSTOM_RESOURCES`], by name.
    pub custom_resources: BTreeMap<&'static str, Fetched<CustomResourceDefinition>>,
    /// The policy that adds the sidecar.
    pub injection: Fetched<MutatingAdmissionPolicy>,
    /// Its binding.
    pub injection_binding: Fetched<MutatingAdmissionPolicyBinding>,
    /// [`DEPLOYMENTS`], by name.
    pub deployments: BTreeMap<&'static str, Fetched<Deployment>>,
    /// The Secret with the serving certificate.
    pub certificate: Fetched<Secret>,
    /// The namespace of the installation, for selectors of NetworkPolicies.
    pub system: Fetched<Namespace>,
    /// The pods of the metrics-adapter and the activators.
    pub pods: Fetched<Vec<Pod>>,
}

// === impl ClusterObjects ===

impl ClusterObjects {
    /// The objects that could not be read.
    pub fn unreadable(&self) -> Vec<String> {
        let system = &self.system_namespace;
        let custom_resources = self
            .custom_resources
            .iter()
            .filter_map(|(name, object)| object.unreadable(&format!("CustomResourceDefinition {name}")));
        let deployments = self
            .deployments
            .iter()
            .filter_map(|(name, object)| object.unreadable(&format!("Deployment {system}/{name}")));
        let others = [
            self.external_api.unreadable(&format!("APIService {EXTERNAL_API}")),
            self.custom_api.unreadable(&format!("APIService {CUSTOM_API}")),
            self.injection.unreadable(&format!("MutatingAdmissionPolicy {INJECTION}")),
            self.injection_binding.unreadable(&format!("MutatingAdmissionPolicyBinding {INJECTION}")),
            self.certificate.unreadable(&format!("Secret {system}/{}", serving_secret(self))),
            self.system.unreadable(&format!("Namespace {system}")),
            self.pods.unreadable(&format!("pods in {system}")),
        ];
        others.into_iter().flatten().chain(custom_resources).chain(deployments).collect()
    }
}

/// Name of the Secret with the serving certificate: that of another issuer where it is mounted.
pub fn serving_secret(cluster: &ClusterObjects) -> String {
    let deployment = cluster.deployments.get(METRICS_ADAPTER).and_then(|object| object.found());
    deployment.and_then(mounted_secret).unwrap_or_else(|| OWN_SECRET.to_owned())
}

fn mounted_secret(deployment: &Deployment) -> Option<String> {
    let pod: &PodSpec = deployment.spec.template.spec.as_ref()?;
    let container = pod.containers.first()?;
    let directory =
        container.env.iter().flatten().find(|variable| variable.name == MOUNTED)?.value.as_ref()?;
    let mount = container.volume_mounts.iter().flatten().find(|mount| mount.mount_path == *directory)?;
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    volume.secret.as_ref()?.secret_name.clone()
}
