//! ServerlessService: the routing mode of one Service, and the activator ports leased to its ports.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ScaleTargetRef;
use super::no_wake::NoWakeSpec;
use crate::Protocol;
use crate::contract::pod_limit::MAX_CONTAINER_CONCURRENCY;
use crate::routing::sks_mode::SksMode;
use crate::scaling::pod_start::StartCause;
use crate::settings::SidecarMode;

/// ServerlessService routes the requests of one Service to pods or to activators. zero-scaler
/// creates it from the PodAutoscaler of the same name.
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
    printcolumn(name = "Desired", type_ = "string", json_path = ".spec.mode"),
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
    /// Name of the Service that clients use, in this namespace.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// Label selector, in its text form, of the pods that get the Service's requests.
    pub selector: String,
    /// Where the selector comes from.
    #[serde(default, skip_serializing_if = "SelectorSource::is_target")]
    pub selector_source: SelectorSource,
    /// Desired destination of requests: Proxy is through activators, Serve directly to pods.
    pub mode: SksMode,
    /// Desired number of activators in the request path in Proxy mode.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub num_activators: u32,
    /// Maximum number of concurrent requests per pod; 0 means no limit.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_CONTAINER_CONCURRENCY))]
    pub container_concurrency: u32,
    /// Whether the pods have a queue-proxy. If not, activators forward to the app's own ports.
    #[serde(default, skip_serializing_if = "SidecarMode::is_required")]
    pub sidecar: SidecarMode,
    /// Whether the workload stays at zero: by its annotation, or because a writer other than Rouse
    /// set the replicas to 0. Activators then respond with 503 instead of waking the workload.
    #[serde(default)]
    pub paused: bool,
    /// The end of a pause that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Time>,
    /// How long activators hold a request for a pod, in seconds. Default: 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3600))]
    pub wake_timeout_seconds: Option<u32>,
    /// Number of requests that each activator may hold. Default: 10000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub wake_queue_depth: Option<u32>,
    /// Requests that activators neither hold nor report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_wake: Option<NoWakeSpec>,
    /// Whether activators give browsers a page while there is no pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting_page: bool,
    /// Whether activators keep streams of server-sent events alive while they are held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sse_keep_alive: bool,
    /// Timeouts that activators apply to requests. Set if the pods have no queue-proxy, which would
    /// apply the timeouts of its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<RequestTimeouts>,
    /// What activators observe of each pod, for a target that is learned. Set if the pods have no
    /// queue-proxy, which otherwise observes its pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation: Option<PodObservation>,
    /// The object that activators may scale from 0 to 1 while no zero-scaler is reachable. Absent
    /// if scale-to-zero is off for the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_target: Option<ScaleTargetRef>,
}

/// Where the selector of a ServerlessService comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorSource {
    /// The scale target: the Service never had a selector.
    #[default]
    Target,
    /// The Service, which has it, or had it before it lost it.
    Service,
    /// The PodAutoscaler.
    PodAutoscaler,
}

// === impl SelectorSource ===

impl SelectorSource {
    fn is_target(&self) -> bool {
        *self == Self::Target
    }
}

/// Timeouts of requests, in milliseconds from the time at which the request is sent to a pod; 0
/// means no timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestTimeouts {
    /// Longest time until the end of the response.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400_000))]
    pub total_millis: u32,
    /// Longest time until the response begins.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400_000))]
    pub response_start_millis: u32,
    /// Longest time without a byte in either direction.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400_000))]
    pub idle_millis: u32,
}

/// What activators observe of each pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodObservation {
    /// The latency objective in microseconds, against which they count misses; 0 means no
    /// objective.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub objective_micros: u32,
}

/// Routing in effect, written by zero-scaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerlessServiceStatus {
    /// Generation of the spec that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Mode of the EndpointSlices as written. Differs from `spec.mode` if no pod is ready or no
    /// activator is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SksMode>,
    /// Number of activators in the EndpointSlices.
    #[serde(default)]
    #[schemars(range(min = 0, max = 4_294_967_295_u32))]
    pub activators: u32,
    /// Name of the second Service, which selects the pods. Set only if the Service of the spec has
    /// no selector. It exists while there are pods, and for ten minutes after them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_service: Option<String>,
    /// Activator ports leased to the ports of the Service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["servicePort"]))]
    pub ports: Vec<PortLease>,
    /// Why no pod starts. Set while no pod runs and none can be expected to start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_failure: Option<StartFailure>,
    /// Condition types: Ready, EndpointsPopulated and ActivatorEndpointsPopulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Why the pods of a waking workload do not start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartFailure {
    /// Category of the failure.
    pub cause: StartCause,
    /// Reason, as reported by Kubernetes.
    pub reason: String,
    /// Message, as reported by Kubernetes.
    #[serde(default)]
    pub message: String,
    /// Name of the pod that failed to start.
    pub pod: String,
    /// Time at which the failure was first observed.
    pub since: Time,
    /// Whether the failure has outlasted the start patience. Activators then reject requests
    /// instead of holding them.
    #[serde(default)]
    pub given_up: bool,
}

/// A port of the Service, and the activator port leased to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PortLease {
    /// Name of the Service port; empty if unnamed.
    #[serde(default)]
    pub name: String,
    /// Number of the Service port.
    pub service_port: u16,
    /// Port on every activator that identifies this port of this workload; unique in the cluster.
    pub activator_port: u16,
    /// Default port of queue-proxy on the pods, which each pod may replace, or port of the app if
    /// they have no queue-proxy; 0 if `podPortName` names the app's port.
    pub pod_port: u16,
    /// Name of the container port of the app, if the Service's target port is a name and the pods
    /// have no queue-proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub pod_port_name: Option<String>,
    /// Protocol of the port. Default: `http`.
    #[serde(default, skip_serializing_if = "Protocol::is_http")]
    pub protocol: Protocol,
}
