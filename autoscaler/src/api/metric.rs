//! The custom resource Metric: what the metrics-adapter collects for one workload.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::pod_limit::MAX_CONTAINER_CONCURRENCY;
use crate::settings::SidecarMode;

/// Metric selects the pods of one workload, whose request statistics are collected. zero-scaler
/// creates it from the PodAutoscaler of the same name, whose annotations set the windows.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.rouse.dev",
    version = "v1alpha1",
    kind = "Metric",
    namespaced,
    category = "rouse",
    derive = "PartialEq",
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct MetricSpec {
    /// Name of the Service, which is the label value in metric queries of HPAs.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// Label selector, in its text form, of the pods that get the Service's requests. Their
    /// requests are the metric.
    pub selector: String,
    /// Label selector, in its text form, of the scale target's pods, if it is another one. The
    /// workload is idle only if these have no requests either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_selector: Option<String>,
    /// Whether the pods have a queue-proxy to read statistics from. If not, activators report all.
    #[serde(default, skip_serializing_if = "SidecarMode::is_required")]
    pub sidecar: SidecarMode,
    /// Maximum number of concurrent requests per pod, by the pod template. It counts where the
    /// PodAutoscaler has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_CONTAINER_CONCURRENCY))]
    pub container_concurrency: Option<u32>,
    /// Whether requests reach pods without queue-proxy past the activators. They are counted
    /// nowhere, so the workload has no metric and no decision.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bypassed: bool,
}
