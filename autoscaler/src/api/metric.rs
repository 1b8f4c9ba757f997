//! The custom resource Metric: what the metrics-adapter collects for one workload.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Collects the requests of one workload. The zero-scaler creates it from the PodAutoscaler of the
/// same name.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.rouse.dev",
    version = "v1alpha1",
    kind = "Metric",
    namespaced,
    category = "rouse",
    derive = "PartialEq",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service"),
    printcolumn(name = "Window", type_ = "integer", json_path = ".spec.stableWindowSeconds"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// The Service that HPAs name in the selector of this metric.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// Label selector of the pods to read, as text.
    pub selector: String,
    /// Length of the stable window.
    #[schemars(range(min = 6, max = 3600))]
    pub stable_window_seconds: u32,
    /// Length of the panic window.
    #[schemars(range(min = 1, max = 3600))]
    pub panic_window_seconds: u32,
    /// Weight of the seconds of a window: `linear` (equal) or `weighted-exponential` (newer ones
    /// weigh more).
    pub aggregation: String,
}
