//! The custom resource Metric: what the metrics-adapter collects for one workload.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metric configures how request statistics of one workload are collected. zero-scaler creates it
/// from the PodAutoscaler of the same name.
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
    /// Name of the Service, which is the label value in metric queries of HPAs.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// Label selector, in its text form, of the pods to scrape.
    pub selector: String,
    /// Length of the stable window, in seconds.
    #[schemars(range(min = 6, max = 3600))]
    pub stable_window_seconds: u32,
    /// Length of the panic window, in seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub panic_window_seconds: u32,
    /// How windows weight their seconds: `linear` gives all seconds the same weight,
    /// `weighted-exponential` gives newer seconds more.
    pub aggregation: String,
}
