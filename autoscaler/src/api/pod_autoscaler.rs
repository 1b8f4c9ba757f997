//! PodAutoscaler: what to scale, on which metric and between which bounds; and for people, why it has the size it has.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Mode;

/// Scales one workload on live concurrency. Made from an HPA, or written by a user who has none.
///
/// Windows and rates are annotations (`autoscaling.rouse.dev/window` and so on), as on the HPA.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.rouse.dev",
    version = "v1alpha1",
    kind = "PodAutoscaler",
    namespaced,
    status = "PodAutoscalerStatus",
    shortname = "pa",
    category = "rouse",
    derive = "PartialEq",
    printcolumn(name = "Mode", type_ = "string", json_path = ".status.mode"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Active")].status"#
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Active")].reason"#
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service", priority = 1),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].message"#,
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.minReplicas <= self.maxReplicas", "message": "minReplicas must not exceed maxReplicas"}
]))]
pub struct PodAutoscalerSpec {
    /// What to scale: anything with a scale subresource, in this namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// Who writes sizes above zero: the HPA of the same name, or Rouse itself.
    #[serde(default)]
    pub scaler: Scaler,
    /// The Service through which the workload's requests come, in this namespace.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// What is averaged and divided by the target.
    #[serde(default)]
    pub metric: MetricName,
    /// Value of the metric that one pod should carry, as a quantity: "70", "0.7", "700m".
    #[schemars(length(min = 1, max = 32))]
    pub target: String,
    /// Requests one pod serves at a time; 0 is no limit. Must be what the pods' sidecars are told.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub container_concurrency: u32,
    /// Smallest size while awake. At least 1, also when the workload may go to zero.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub min_replicas: i32,
    /// Largest size.
    #[schemars(range(min = 1))]
    pub max_replicas: i32,
    /// Whether an idle workload is put to zero.
    #[serde(default)]
    pub scale_to_zero: bool,
}

fn one() -> i32 {
    1
}

/// The object that holds the replica count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTargetRef {
    /// Group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Name, in the PodAutoscaler's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Who writes sizes above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scaler {
    /// The HPA of the same name, except while panicking.
    #[default]
    #[serde(rename = "HPA")]
    Hpa,
    /// The zero-scaler, for every size; needs no HPA.
    Direct,
}

/// What is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricName {
    /// Requests in flight or held.
    #[default]
    Concurrency,
    /// Requests that arrive in a second.
    RequestsPerSecond,
}

/// What the zero-scaler last saw and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAutoscalerStatus {
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `spec.replicas` of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What the decider wants, before the bounds; absent while it has no data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// Where the Service's requests go: Proxy is through activators, Serve directly to pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// Ready, Active, ScaleTargetInitialized, HPAAccepted, ActivatorInPath.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
