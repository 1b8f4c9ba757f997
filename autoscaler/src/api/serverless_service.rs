//! ServerlessService: where the requests of one Service go, and the activator ports that stand for its ports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ScaleTargetRef;
use crate::Protocol;
use crate::routing::sks_mode::SksMode;
use crate::scaling::pod_start::StartCause;

/// Steers the requests of one Service. Made by the zero-scaler from the PodAutoscaler of the same name.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.rouse.dev",
    version = "v1alpha1",
    kind = "ServerlessService",
    plural = "serverlessservices",
    namespaced,
    status = "ServerlessServiceStatus",
    shortname = "sks",
    category = "rouse",
    derive = "PartialEq",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service"),
    printcolumn(name = "Wanted", type_ = "string", json_path = ".spec.mode"),
    printcolumn(name = "Mode", type_ = "string", json_path = ".status.mode"),
    printcolumn(name = "Activators", type_ = "integer", json_path = ".status.activators"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].reason"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ServerlessServiceSpec {
    /// The public Service, in this namespace.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// The workload's pods, as a label selector's text.
    pub selector: String,
    /// Where requests should go.
    pub mode: SksMode,
    /// How many activators should be in the path in Proxy mode.
    #[schemars(range(min = 1))]
    pub num_activators: u32,
    /// Requests one pod serves at a time; 0 is no limit.
    #[serde(default)]
    pub container_concurrency: u32,
    /// Whether somebody put the workload to zero who is not Rouse: activators then answer 503 instead of waking it.
    #[serde(default)]
    pub paused: bool,
    /// How long activators let a request wait for a pod. Absent: their own time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub wake_timeout_seconds: Option<u32>,
    /// Requests that may wait for a pod in each activator. Absent: its own number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wake_queue_depth: Option<u32>,
    /// What activators may take from zero to one pod while no zero-scaler can be reached. Absent: nothing, for the workload
    /// may not sleep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_target: Option<ScaleTargetRef>,
}

/// What is in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerlessServiceStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The mode of the slices as written; differs from the wanted one when there is nobody to serve or to proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SksMode>,
    /// Activators in the slices.
    #[serde(default)]
    pub activators: u32,
    /// The Service beside the public one that selects the pods; only when the public Service has no selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_service: Option<String>,
    /// The activator ports that stand for the Service's ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["servicePort"]))]
    pub ports: Vec<PortLease>,
    /// Why no pod starts, while there is none that runs or may still come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
    /// Ready, EndpointsPopulated, ActivatorEndpointsPopulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Why the pods of a workload that is waking do not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// What kind of cause.
    pub cause: StartCause,
    /// Kubernetes' own word for it.
    pub reason: String,
    /// Kubernetes' own sentence.
    #[serde(default)]
    pub message: String,
    /// The pod that it was seen on.
    pub pod: String,
    /// When it was first seen.
    pub since: Time,
    /// Whether it has lasted so long that activators refuse requests for it instead of holding them.
    #[serde(default)]
    pub given_up: bool,
}

/// One port of the Service and the activator port that stands for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortLease {
    /// Name of the Service's port; empty when it has none.
    #[serde(default)]
    pub name: String,
    /// Number of the Service's port.
    pub service_port: u16,
    /// Port on every activator that means this port of this workload, and nothing else in the cluster.
    pub activator_port: u16,
    /// Port on the pods: their queue-proxy's.
    pub pod_port: u16,
    /// What is spoken there; HTTP unless said.
    #[serde(default, skip_serializing_if = "Protocol::is_http")]
    pub protocol: Protocol,
}
