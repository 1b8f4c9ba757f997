//! The custom resource ServerlessService: where the requests of one Service go, and the activator
//! ports that are leased for its ports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ScaleTargetRef;
use crate::Protocol;
use crate::routing::sks_mode::SksMode;
use crate::scaling::pod_start::StartCause;

/// Routes the requests of one Service. The zero-scaler creates it from the PodAutoscaler of the
/// same name.
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
        name = "Reason",
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
    /// Label selector of the workload's pods, as text.
    pub selector: String,
    /// Where requests should go.
    pub mode: SksMode,
    /// Number of activators in the path in Proxy mode.
    #[schemars(range(min = 1))]
    pub num_activators: u32,
    /// Requests that one pod serves at a time; 0 is no limit.
    #[serde(default)]
    pub container_concurrency: u32,
    /// Whether a writer other than Rouse set the size to 0 while scale-to-zero is off. Activators
    /// then answer 503 instead of waking the workload.
    #[serde(default)]
    pub paused: bool,
    /// Time that activators hold a request for a pod. Absent: the activators' own setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub wake_timeout_seconds: Option<u32>,
    /// Requests that each activator may hold. Absent: the activators' own setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub wake_queue_depth: Option<u32>,
    /// Target that activators may scale from zero to one pod while no zero-scaler is reachable.
    /// Absent if scale-to-zero is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_target: Option<ScaleTargetRef>,
}

/// The routing that was last written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerlessServiceStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Mode of the EndpointSlices. Differs from the wanted mode while no pod, or no activator, is
    /// ready for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SksMode>,
    /// Number of activators in the EndpointSlices.
    #[serde(default)]
    pub activators: u32,
    /// The Service that selects the pods, if the public Service has no selector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_service: Option<String>,
    /// The activator ports that are leased for the Service's ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["servicePort"]))]
    pub ports: Vec<PortLease>,
    /// Why no pod starts, while none is ready or can still become ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
    /// Ready, EndpointsPopulated, ActivatorEndpointsPopulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Why the pods of a workload that wakes do not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// Class of the cause.
    pub cause: StartCause,
    /// Reason that Kubernetes reports.
    pub reason: String,
    /// Message that Kubernetes reports.
    #[serde(default)]
    pub message: String,
    /// The pod with the failure.
    pub pod: String,
    /// Time of the first observation.
    pub since: Time,
    /// Whether its patience is over: activators answer 503 instead of holding requests.
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
    /// Port on every activator for this port of this workload, unique in the cluster.
    pub activator_port: u16,
    /// Port of the pods' queue-proxy.
    pub pod_port: u16,
    /// Protocol of the port. Default: http.
    #[serde(default, skip_serializing_if = "Protocol::is_http")]
    pub protocol: Protocol,
}
