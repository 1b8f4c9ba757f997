//! ClusterObjects: what concerns all workloads. `read_cluster` reads it; the checks of
//! [`cluster`](super::cluster) and of workloads use it.

use std::collections::BTreeMap;

use autoscaler::contract::{CONFIG_MAP, CUSTOM_API, EXTERNAL_API, INJECTION, SERVING_CERTIFICATE};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, PodSpec, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::ResourceExt;
use serde_json::Value;

use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;

pub const CUSTOM_RESOURCES: [&str; 3] = [
    "metrics.autoscaling.rouse.dev",
    "podautoscalers.autoscaling.rouse.dev",
    "serverlessservices.autoscaling.rouse.dev",
];
/// The Deployments.
pub const METRICS_ADAPTER: &str = "metrics-adapter";
/// The activators' Deployment.
pub const ACTIVATOR: &str = "activator";
pub const ZERO_SCALER: &str = "zero-scaler";
pub const DEPLOYMENTS: [&str; 3] = [ACTIVATOR, METRICS_ADAPTER, ZERO_SCALER];
/// Names of the Leases, which equal the Deployments' names.
pub const LEASES: [&str; 2] = [METRICS_ADAPTER, ZERO_SCALER];
/// Label of the pods of each part of Rouse.
pub const NAME_LABEL: &str = "app.kubernetes.io/name";
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
    pub injection_binding: Fetched<MutatingAdmissionPolicyBinding>,
    /// The webhook in place of both.
    pub injection_webhook: Fetched<MutatingWebhookConfiguration>,
    /// A labelled pod as a dry run of its creation returns it; not found without the webhook.
    pub labelled_pod: Fetched<Pod>,
    /// [`DEPLOYMENTS`], by name.
    pub deployments: BTreeMap<&'static str, Fetched<Deployment>>,
    /// The Secret with the serving certificate.
    pub certificate: Fetched<Secret>,
    /// The namespace of the installation, for selectors of NetworkPolicies.
    pub system: Fetched<Namespace>,
    /// The pods of the installation's namespace.
    pub pods: Fetched<Vec<Pod>>,
    /// The NetworkPolicies there.
    pub network_policies: Fetched<Vec<NetworkPolicy>>,
    /// The cluster-wide settings.
    pub settings: Fetched<ConfigMap>,
    /// [`LEASES`], by name.
    pub leases: BTreeMap<&'static str, Fetched<Lease>>,
    /// The objects of the manifests without a field of their own here.
    pub installed: Vec<InstalledObject>,
}

/// An object of the manifests, and the cluster's version.
#[derive(Clone, Debug)]
pub struct InstalledObject {
    pub manifest: Value,
    /// The object in the cluster.
    pub found: Fetched<Value>,
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
            self.injection_webhook.unreadable(&format!("MutatingWebhookConfiguration {INJECTION}")),
            self.labelled_pod.unreadable("the webhook, by a dry run that creates a labelled pod"),
            self.certificate.unreadable(&format!("Secret {system}/{}", serving_secret(self))),
            self.system.unreadable(&format!("Namespace {system}")),
            self.pods.unreadable(&format!("pods in {system}")),
            self.network_policies.unreadable(&format!("NetworkPolicies in {system}")),
            self.settings.unreadable(&format!("ConfigMap {system}/{CONFIG_MAP}")),
        ];
        let leases = self
            .leases
            .iter()
            .filter_map(|(name, object)| object.unreadable(&format!("Lease {system}/{name}")));
        let installed = unreadable_kinds(&self.installed);
        let others = others.into_iter().flatten();
        others.chain(custom_resources).chain(deployments).chain(leases).chain(installed).collect()
    }

    /// The pods of a part of Rouse that could be read.
    pub fn pods_of(&self, part: &str) -> impl Iterator<Item = &Pod> {
        let pods = self.pods.found().into_iter().flatten();
        pods.filter(move |pod| pod.labels().get(NAME_LABEL).is_some_and(|name| name == part))
    }

    /// Whether a part of Rouse has an available pod; `None` if its Deployment could not be read.
    pub fn has_available_pods(&self, part: &str) -> Option<bool> {
        match self.deployments.get(part)? {
            Fetched::Found(deployment) => {
                let status = deployment.status.as_ref();
                Some(status.and_then(|status| status.available_replicas).unwrap_or(0) > 0)
            }
            Fetched::NotFound => Some(false),
            Fetched::Unreadable(_) => None,
        }
    }

    /// The image tag of a part of Rouse; `None` if it is unknown, or pinned by a digest.
    pub fn tag(&self, deployment: &str) -> Option<&str> {
        let pod = self.deployments.get(deployment)?.found()?.spec.template.spec.as_ref()?;
        tag_of(pod.containers.first()?.image.as_deref()?)
    }

    /// Whether the installation may have this program's manifests: its parts have this version, or
    /// an unknown one.
    pub fn is_of_this_version(&self) -> bool {
        let tags: Vec<&str> = DEPLOYMENTS.iter().filter_map(|name| self.tag(name)).collect();
        let is_release =
            |tag: &str| tag.strip_prefix('v').is_some_and(|it| it.starts_with(|c: char| c.is_ascii_digit()));
        tags.iter().all(|tag| !is_release(tag) || tag.strip_prefix('v') == Some(env!("CARGO_PKG_VERSION")))
    }
}

/// One line for each kind, because the user's rights are the same for all objects of a kind.
fn unreadable_kinds(objects: &[InstalledObject]) -> Vec<String> {
    let mut lines = BTreeMap::new();
    for object in objects {
        let kind = object.manifest.get("kind").and_then(Value::as_str).unwrap_or_default();
        if let Some(line) = object.found.unreadable(&format!("objects of Rouse of kind {kind}")) {
            lines.entry(kind).or_insert(line);
        }
    }
    lines.into_values().collect()
}

/// The tag of an image.
pub fn tag_of(image: &str) -> Option<&str> {
    let name = image.rsplit('/').next()?;
    if name.contains('@') { None } else { name.split_once(':').map(|(_, tag)| tag) }
}

/// Name of the Secret with the serving certificate: another issuer's Secret where one is mounted.
pub fn serving_secret(cluster: &ClusterObjects) -> String {
    let deployment = cluster.deployments.get(METRICS_ADAPTER).and_then(|object| object.found());
    deployment.and_then(mounted_secret).unwrap_or_else(|| SERVING_CERTIFICATE.to_owned())
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
