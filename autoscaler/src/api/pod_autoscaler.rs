//! The custom resource PodAutoscaler: what to scale, on which metric and between which bounds. Its
//! status reports the size and the reason for it.
//!
//! Annotations and the cluster's settings replace absent fields of the spec. The metrics-adapter
//! and the zero-scaler both use [`PodAutoscalerSpec::settings`] and [`PodAutoscalerSpec::target`],
//! so they cannot disagree. A spec from an HPA has all fields of the HPA, which therefore override
//! its annotations.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::metric_name::MetricName;
use crate::routing::sks_mode::SksMode;
use crate::scaling::metric_target::{MetricTarget, MetricTargetError};
use crate::scaling::workload_state::WorkloadState;
use crate::settings::{AutoscalerConfig, SettingError, Settings, SpecReplicaBounds};

/// Scales one workload on live concurrency. Created from an HPA, or written by a user without one.
///
/// Windows and rates are annotations (such as `autoscaling.rouse.dev/window`), as on the HPA.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.rouse.dev",
    version = "v1alpha1",
    kind = "PodAutoscaler",
    namespaced,
    status = "PodAutoscalerStatus",
    shortname = "rpa",
    category = "rouse",
    derive = "PartialEq",
    printcolumn(name = "Target", type_ = "string", json_path = ".status.target"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Replicas", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desiredReplicas"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Route", type_ = "string", json_path = ".status.route", priority = 1),
    printcolumn(name = "Service", type_ = "string", json_path = ".spec.service", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
     "message": "minReplicas must not exceed maxReplicas"}
]))]
pub struct PodAutoscalerSpec {
    /// What to scale: any object with a scale subresource, in this namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// Writer of sizes above zero: the HPA of the same name, or Rouse itself.
    #[serde(default)]
    pub scaler: Scaler,
    /// The Service that receives the workload's requests, in this namespace.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// The metric that is averaged and divided by the target: `concurrency` or
    /// `requests-per-second` (also spelled `rps`). Absent: the annotation `metric`, else
    /// `concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "metric_schema")]
    pub metric: Option<MetricName>,
    /// Value of the metric that one pod should carry, as a quantity: "70", "0.7", "700m". Absent: a
    /// share of what one pod can carry, from the annotations `target` and
    /// `target-utilization-percentage` and the cluster's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub target: Option<String>,
    /// Requests that one pod serves at a time; 0 is no limit. Must be equal to the setting of the
    /// sidecars.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1000))]
    pub container_concurrency: u32,
    /// Smallest size above zero. At least 1, also with scale-to-zero. Absent: the annotation
    /// `min-scale` or the cluster's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub min_replicas: Option<i32>,
    /// Largest size. Absent: the annotation `max-scale` or the cluster's settings, where 0 is no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_replicas: Option<i32>,
    /// Whether an idle workload is scaled to zero.
    #[serde(default)]
    pub scale_to_zero: bool,
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

/// Writer of sizes above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scaler {
    /// The HPA of the same name, except in a panic.
    #[default]
    #[serde(rename = "HPA")]
    Hpa,
    /// The zero-scaler, for all sizes; needs no HPA.
    Direct,
}

/// The state of a workload in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadPhase {
    /// Pods serve requests.
    Active,
    /// Pods are starting; requests are held.
    Waking,
    /// There are no pods; activators hold the next request and wake the workload.
    AtZero,
    /// Another writer set the size to 0 and scale-to-zero is off; requests get 503.
    Paused,
    /// Something is wrong; the reason and the message name it and the fix.
    Degraded,
    /// The workload was not observed completely yet.
    Pending,
}

/// Where the Service sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// To the pods (mode Serve).
    Pods,
    /// To activators, which forward to pods or hold (mode Proxy).
    Activators,
}

/// The last observation and writes of the zero-scaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAutoscalerStatus {
    /// Generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How the workload is used: Active, Reserve or Retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkloadState>,
    /// `spec.replicas` of the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of pods that the decider wants, before the bounds; absent while it has no data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
    /// The state of the workload in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<WorkloadPhase>,
    /// Why the workload is in that phase, as one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The reason as a sentence, with the fix where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metric and value that one pod should carry, such as `concurrency: 70`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Where the Service sends requests: to pods or to activators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Mode of the ServerlessService: Proxy is through activators, Serve is directly to pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SksMode>,
    /// Ready, Active, ScaleTargetInitialized, ActivatorInPath; HPAAccepted with an HPA; Degraded
    /// and PodsCanStart while there is something to report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// A derived schema would lack the accepted alias and would list `null`.
fn metric_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = ["concurrency", "requests-per-second", "rps"];
    schemars::json_schema!({ "type": "string", "nullable": true, "enum": names })
}

// === impl PodAutoscalerSpec ===

impl PodAutoscalerSpec {
    /// The settings of a workload with this spec and these annotations, and their errors.
    pub fn settings(
        &self,
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
    ) -> (Settings, Vec<SettingError>) {
        let size = |replicas: Option<i32>| replicas.map(|n| u32::try_from(n).unwrap_or(0).max(1));
        let sizes = SpecReplicaBounds {
            min: size(self.min_replicas),
            max: size(self.max_replicas),
            limited: self.scaler == Scaler::Direct,
        };
        Settings::resolve_given(config, annotations, sizes)
    }

    /// The metric of the spec, else that of the annotation, else concurrency.
    pub fn metric_name(&self, settings: &Settings) -> MetricName {
        self.metric.or(settings.metric).unwrap_or(MetricName::Concurrency)
    }

    /// The value of the metric that one pod should carry, and the value that it can carry.
    ///
    /// # Errors
    /// If the target of the spec is invalid.
    pub fn target(&self, settings: &Settings) -> Result<MetricTarget, MetricTargetError> {
        let metric = self.metric_name(settings);
        match &self.target {
            Some(given) => MetricTarget::given(given, metric, self.container_concurrency, settings),
            None => Ok(MetricTarget::resolve(metric, self.container_concurrency, settings)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: Value) -> PodAutoscalerSpec {
        let mut spec = json!({
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "service": "web",
        });
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| (format!("autoscaling.rouse.dev/{k}"), (*v).to_owned())).collect()
    }

    #[test]
    fn takes_absent_fields_from_annotations_and_cluster_settings() {
        let config = AutoscalerConfig { max_scale: 9, ..AutoscalerConfig::default() };
        let given = annotations(&[("metric", "rps"), ("target", "300"), ("min-scale", "2")]);
        let (settings, errors) = spec(json!({})).settings(&config, &given);
        assert_eq!(errors, []);
        assert_eq!((settings.min_scale, settings.max_scale), (2, 9));
        assert_eq!(spec(json!({})).metric_name(&settings), MetricName::RequestsPerSecond);
        assert_eq!(spec(json!({})).target(&settings), Ok(MetricTarget { target: 210.0, total: 300.0 }));
        let (settings, _) = spec(json!({})).settings(&AutoscalerConfig::default(), &BTreeMap::new());
        assert_eq!(spec(json!({})).target(&settings), Ok(MetricTarget { target: 70.0, total: 100.0 }));
        assert_eq!((settings.min_scale, settings.max_scale), (0, 0));
    }

    #[test]
    fn prefers_spec_over_annotations() {
        let given =
            annotations(&[("metric", "rps"), ("target", "300"), ("min-scale", "2"), ("max-scale", "3")]);
        let spec = spec(json!({"metric": "concurrency", "target": "7", "minReplicas": 4, "maxReplicas": 50}));
        let (settings, errors) = spec.settings(&AutoscalerConfig::default(), &given);
        assert_eq!(errors, []);
        assert_eq!((settings.min_scale, settings.max_scale), (4, 50));
        assert_eq!(spec.metric_name(&settings), MetricName::Concurrency);
        assert_eq!(spec.target(&settings), Ok(MetricTarget { target: 7.0, total: 10.0 }));
    }

    #[test]
    fn limits_max_replicas_by_cluster_only_without_hpa() {
        let config = AutoscalerConfig { max_scale: 5, max_scale_limit: 10, ..AutoscalerConfig::default() };
        let largest = |scaler| {
            let (settings, errors) =
                spec(json!({"scaler": scaler, "maxReplicas": 50})).settings(&config, &BTreeMap::new());
            (settings.max_scale, errors.len())
        };
        assert_eq!(largest("Direct"), (5, 1));
        assert_eq!(largest("HPA"), (50, 0));
    }

    /// The API server would fill in a default, so the annotation would never apply.
    #[test]
    fn schema_has_no_default_for_fields_with_annotations() {
        let crd = serde_json::to_value(PodAutoscaler::crd()).unwrap();
        let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for field in ["metric", "target", "minReplicas", "maxReplicas"] {
            assert_eq!(spec["properties"][field]["default"], Value::Null, "{field}");
            assert!(!spec["required"].as_array().unwrap().contains(&json!(field)), "{field}");
        }
        let rule = spec["x-kubernetes-validations"][0]["rule"].as_str().unwrap();
        assert!(rule.starts_with("!has(self.minReplicas) || !has(self.maxReplicas) || "), "{rule}");
    }
}
