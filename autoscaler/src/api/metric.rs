//! Metric: what the metrics-adapter collects for one workload.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Collects the requests of one workload. Made by the zero-scaler from the PodAutoscaler of the same name.
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
    /// The Service by whose name HPAs ask for this metric.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// The pods to read, as a label selector's text.
    pub selector: String,
    /// Length of the stable window.
    #[schemars(range(min = 6, max = 3600))]
    pub stable_window_seconds: u32,
    /// Length of the panic window.
    #[schemars(range(min = 1, max = 3600))]
    pub panic_window_seconds: u32,
    /// Whether newer seconds weigh more: `linear` or `weighted-exponential`.
    pub aggregation: String,
}
