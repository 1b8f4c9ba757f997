//! PodAutoscaler: the scale target, metric and replica bounds of a workload, and its status.
//!
//! Fields that the spec omits come from annotations and from the ConfigMap. metrics-adapter and
//! zero-scaler resolve them with the same functions ([`PodAutoscalerSpec::settings`],
//! [`PodAutoscalerSpec::target`]), so both use the same values. A spec made from an HPA contains
//! every value of the HPA: the HPA takes precedence over annotations on it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::learning_status::LearningStatus;
use super::no_wake::NoWakeSpec;
use super::savings_status::SavingsStatus;
use super::schedule_status::ScheduleStatus;
use crate::contract::metric_name::MetricName;
use crate::contract::pod_limit::MAX_CONTAINER_CONCURRENCY;
use crate::contract::selector::Selector;
use crate::routing::sks_mode::SksMode;
use crate::scaling::metric_target::{MetricTarget, MetricTargetError};
use crate::scaling::workload_state::WorkloadState;
use crate::settings::{
    AutoscalerConfig, NO_WAKE, PAUSED, Pause, SCHEDULE, SELECTOR, SIDECAR, Schedule, SettingError, Settings,
    SidecarMode, SpecReplicaBounds, WAITING_PAGE,
};

/// PodAutoscaler scales one workload on live concurrency or requests per second. zero-scaler
/// creates it from an HPA; users without an HPA create it themselves.
///
/// Windows and rates are annotations, such as `autoscaling.rouse.dev/window`, as on the HPA.
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
     "message": "minReplicas must not exceed maxReplicas"},
    {"rule": "!has(self.schedule) || self.schedule.matches('^( *((Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?(,(Mon|Tue|Wed|Thu|Fri|Sat|Sun)(-(Mon|Tue|Wed|Thu|Fri|Sat|Sun))?)* +)?[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]( +[A-Za-z][A-Za-z0-9_+/-]*)? *: *[0-9]{1,10} *(;|$)){1,16} *$')",
     "message": "schedule must be windows with a smallest size each, separated by semicolons, such as Mon-Fri 07:30-19:00 Europe/Berlin: 2; Sat 10:00-14:00: 1 (at most 16)"},
    {"rule": "!has(self.paused) || self.paused.matches('^(true|false|[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{1,9})?(Z|[+-][0-2][0-9]:[0-5][0-9]))$')",
     "message": "paused must be \"true\", \"false\", or the end of the pause, such as 2026-12-01T08:00:00Z"}
]))]
pub struct PodAutoscalerSpec {
    /// The object to scale: any resource with a scale subresource, in this namespace.
    pub scale_target_ref: ScaleTargetRef,
    /// Writer of replica counts above zero: the HPA of the same name on a metric of Rouse,
    /// zero-scaler (`Direct`), or another autoscaler (`Other`), with which Rouse only wakes the
    /// workload and scales it to zero.
    #[serde(default)]
    pub scaler: Scaler,
    /// Name of the Service that receives the workload's requests, in this namespace.
    #[schemars(length(min = 1, max = 63))]
    pub service: String,
    /// The metric that is averaged and divided by the target: `concurrency` or
    /// `requests-per-second` (alias `rps`). Default: the annotation `metric`, else `concurrency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "metric_schema")]
    pub metric: Option<MetricName>,
    /// Target value of the metric per pod, as a quantity: "70", "0.7", "700m". Default: the
    /// capacity of a pod times the target utilization, from the annotations `target` and
    /// `target-utilization-percentage` and from the ConfigMap `config-autoscaler`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub target: Option<String>,
    /// Maximum number of concurrent requests per pod; 0 means that of the annotation
    /// `container-concurrency` of the pods, or no limit.
    #[serde(default)]
    #[schemars(range(min = 0, max = MAX_CONTAINER_CONCURRENCY))]
    pub container_concurrency: u32,
    /// Whether pods have a queue-proxy. Overrides the annotation `sidecar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "sidecar_schema", extend("description" = SIDECAR.field_description()))]
    pub sidecar: Option<SidecarMode>,
    /// Labels of the pods of a Service without selector. Overrides the annotation `selector`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "labels_schema", extend("description" = SELECTOR.field_description()))]
    pub selector: Option<BTreeMap<String, String>>,
    /// Requests that are not load. Overrides the annotations `no-wake` and `no-wake-response`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("description" = NO_WAKE.field_description()))]
    pub no_wake: Option<NoWakeSpec>,
    /// Whether browsers get a page at zero. Overrides the annotation `waiting-page`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("description" = WAITING_PAGE.field_description()))]
    pub waiting_page: Option<bool>,
    /// Smallest size by time. Overrides the annotation `schedule`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024), extend("description" = SCHEDULE.field_description()))]
    pub schedule: Option<String>,
    /// Whether the size stays as it is. Overrides the annotation `paused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), extend("description" = PAUSED.field_description()))]
    pub paused: Option<String>,
    /// Minimum number of replicas above zero. At least 1, also with `scaleToZero`. Default:
    /// `min-scale` of the ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub min_replicas: Option<i32>,
    /// Maximum number of replicas. Default: `max-scale` of the ConfigMap, in which 0 means no
    /// maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    pub max_replicas: Option<i32>,
    /// Whether an idle workload is scaled to zero.
    #[serde(default)]
    pub scale_to_zero: bool,
}

/// Reference to an object with a scale subresource.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleTargetRef {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Name, in the PodAutoscaler's namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

impl ScaleTargetRef {
    /// The API group; empty for the core group.
    pub fn group(&self) -> &str {
        group_of(&self.api_version)
    }

    /// Whether both name one object: the HPA controller ignores the version as well.
    pub fn is_same_object(&self, other: &Self) -> bool {
        (self.group(), &self.kind, &self.name) == (other.group(), &other.kind, &other.name)
    }
}

/// The API group of `group/version`; empty for the core group.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

/// Writer of replica counts above zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Scaler {
    /// The HPA of the same name; zero-scaler writes only during a panic.
    #[default]
    #[serde(rename = "HPA")]
    Hpa,
    /// zero-scaler writes every replica count; no HPA is needed.
    Direct,
    /// Any other autoscaler, such as an HPA on CPU; zero-scaler writes only from and to zero.
    Other,
}

/// State of a workload, as a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkloadPhase {
    /// Pods serve requests.
    Active,
    /// Pods are starting; requests are held.
    Waking,
    /// The workload has no pods; activators hold the next request and wake the workload.
    AtZero,
    /// The size stays as it is, by the annotation `paused`, or at 0 because another writer set it
    /// and scale-to-zero is off; requests at 0 get 503.
    Paused,
    /// A problem needs attention; `reason` and `message` name the problem and the fix.
    Degraded,
    /// zero-scaler has not observed all objects of the workload yet.
    Pending,
}

/// Where the Service sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Route {
    /// Directly to the pods (mode Serve).
    Pods,
    /// To activators, which forward requests to pods or hold them (mode Proxy).
    Activators,
}

/// Last observed state of the workload, written by zero-scaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodAutoscalerStatus {
    /// Generation of the spec that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Whether the workload serves requests (Active), is at zero (Reserve) or has no route
    /// (Retired).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<WorkloadState>,
    /// `spec.replicas` of the scale target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub replicas: Option<i32>,
    /// Replicas that the load needs, before bounds are applied; absent without data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub desired_replicas: Option<i32>,
    /// State of the workload, as a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<WorkloadPhase>,
    /// Reason for the phase, as one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable explanation of the reason, with the fix if a fix is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Metric and its target value per pod, such as `concurrency: 70`. Without a target of the user
    /// it is the learned one in force, such as `concurrency: 8 (learned)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Destination of the Service's requests: pods or activators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// Mode of the ServerlessService: Proxy sends requests through activators, Serve directly to
    /// pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<SksMode>,
    /// The minimum of the schedule, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleStatus>,
    /// What the workload did not use because it was at zero; absent while scale-to-zero is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savings: Option<SavingsStatus>,
    /// The learned target, unless learning is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learning: Option<LearningStatus>,
    /// Condition types: Ready, Active, ScaleTargetInitialized and ActivatorInPath; HPAAccepted if
    /// an HPA exists; Degraded and PodsCanStart only while they report a problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Written by hand because a derived schema omits the alias `rps` and adds `null` to the enum.
fn metric_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names = ["concurrency", "requests-per-second", "rps"];
    schemars::json_schema!({ "type": "string", "nullable": true, "enum": names })
}

/// Written by hand because a derived schema has no bounds for the values of a map.
fn labels_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let value = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
    schemars::json_schema!({
        "type": "object", "nullable": true, "minProperties": 1, "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 63, "pattern": value},
    })
}

/// Written by hand because a derived schema adds `null` to the enum.
fn sidecar_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": "string", "nullable": true, "enum": ["Required", "None"] })
}

// === impl PodAutoscalerSpec ===

impl PodAutoscalerSpec {
    /// Resolves the settings of a workload from its spec, annotations and the ConfigMap. Also
    /// returns every error.
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
        let (mut settings, mut errors) = Settings::resolve_given(config, annotations, sizes);
        if let Some(no_wake) = &self.no_wake {
            errors.extend(no_wake.override_settings(&mut settings));
        }
        settings.wake.waiting_page = self.waiting_page.unwrap_or(settings.wake.waiting_page);
        if let Some(text) = &self.schedule {
            match Schedule::parse(text) {
                Some(schedule) => settings.scale.schedule = Some(schedule),
                None => errors.push(SettingError::new("spec.schedule", text, Schedule::FORMAT.words)),
            }
        }
        if let Some(text) = &self.paused {
            match Pause::parse(text) {
                Some(pause) => settings.scale.pause = pause,
                None => errors.push(SettingError::new("spec.paused", text, Pause::FORMAT.words)),
            }
        }
        settings.learning.mode = settings.learning.mode.resolve(self.names_target(&settings));
        (settings, errors)
    }

    /// Whether the user named a target: in the spec, else by the annotation.
    pub fn names_target(&self, settings: &Settings) -> bool {
        self.target.is_some() || settings.target.capacity.is_some()
    }

    /// The metric in effect: of the spec, else of the annotation.
    pub fn metric_name(&self, settings: &Settings) -> MetricName {
        self.metric.unwrap_or(settings.target.metric)
    }

    /// Requests that one pod serves at a time: by the spec, else by the pod template; 0 means no
    /// limit.
    pub fn limit(&self, of_template: Option<u32>) -> u32 {
        match self.container_concurrency {
            0 => of_template.unwrap_or(0),
            limit => limit,
        }
    }

    /// Target value and total capacity of one pod, with the [limit](Self::limit).
    ///
    /// # Errors
    /// If `spec.target` is not a valid quantity.
    pub fn target(
        &self,
        limit_of_template: Option<u32>,
        settings: &Settings,
    ) -> Result<MetricTarget, MetricTargetError> {
        let (metric, limit) = (self.metric_name(settings), self.limit(limit_of_template));
        match &self.target {
            Some(given) => MetricTarget::given(given, metric, limit, settings),
            None => Ok(MetricTarget::resolve(metric, limit, settings)),
        }
    }

    /// Whether the workload's pods have a queue-proxy: by the spec, else by the annotation. `None`
    /// leaves it to the pod template.
    pub fn sidecar(&self, settings: &Settings) -> Option<SidecarMode> {
        self.sidecar.or(settings.pods.sidecar)
    }

    /// Selects the pods of a Service without selector: by the spec, else by the annotation.
    pub fn pod_selector(&self, settings: &Settings) -> Option<Selector> {
        self.selector.as_ref().map(Selector::from).or_else(|| settings.pods.selector.clone())
    }

    /// Whether a target is learned for the workload: from what queue-proxies observe, or activators
    /// where pods have no queue-proxy. It has no effect with another autoscaler.
    pub fn learns(&self, settings: &Settings) -> bool {
        self.scaler != Scaler::Other && settings.learns(self.metric_name(settings))
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;
    use serde_json::{Value, json};

    use super::*;
    use crate::settings::LearnTarget;

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
    fn learned_target_is_in_force_where_no_target_is_named() {
        for (target, given, mode) in [
            (json!({}), &[] as &[_], LearnTarget::Apply),
            (json!({"target": "20"}), &[], LearnTarget::Recommend),
            (json!({}), &[("target", "20")], LearnTarget::Recommend),
            (json!({}), &[("learn-target", "Recommend")], LearnTarget::Recommend),
            (json!({"target": "20"}), &[("learn-target", "Apply")], LearnTarget::Apply),
            (json!({}), &[("learn-target", "Off")], LearnTarget::Off),
        ] {
            let (settings, errors) = spec(target).settings(&AutoscalerConfig::default(), &annotations(given));
            assert_eq!((settings.learning.mode, errors), (mode, Vec::new()), "{given:?}");
        }
    }

    #[test]
    fn omitted_spec_fields_come_from_annotations_and_config_map() {
        let mut config = AutoscalerConfig::default();
        config.defaults.scale.max = 9;
        let given = annotations(&[("metric", "rps"), ("target", "300")]);
        let (settings, errors) = spec(json!({})).settings(&config, &given);
        assert_eq!(errors, []);
        assert_eq!((settings.scale.min, settings.scale.max), (0, 9));
        assert_eq!(spec(json!({})).metric_name(&settings), MetricName::RequestsPerSecond);
        assert_eq!(spec(json!({})).target(None, &settings), Ok(MetricTarget { target: 210.0, total: 300.0 }));
        let (settings, _) = spec(json!({})).settings(&AutoscalerConfig::default(), &BTreeMap::new());
        assert_eq!(spec(json!({})).target(None, &settings), Ok(MetricTarget { target: 70.0, total: 100.0 }));
        assert_eq!(
            spec(json!({})).target(Some(10), &settings),
            Ok(MetricTarget { target: 7.0, total: 10.0 })
        );
        assert_eq!((settings.scale.min, settings.scale.max), (0, 0));
    }

    #[test]
    fn spec_takes_precedence_over_annotations() {
        let given = annotations(&[("metric", "rps"), ("target", "300")]);
        let spec = spec(json!({"metric": "concurrency", "target": "7", "minReplicas": 4, "maxReplicas": 50}));
        let (settings, errors) = spec.settings(&AutoscalerConfig::default(), &given);
        assert_eq!(errors, []);
        assert_eq!((settings.scale.min, settings.scale.max), (4, 50));
        assert_eq!(spec.metric_name(&settings), MetricName::Concurrency);
        assert_eq!(spec.target(None, &settings), Ok(MetricTarget { target: 7.0, total: 10.0 }));
    }

    #[test]
    fn no_wake_of_the_spec_takes_precedence_and_its_errors_name_the_field() {
        let given = annotations(&[("no-wake", "HEAD"), ("no-wake-response", "204")]);
        let of = |no_wake: Value| {
            let spec = spec(json!({"noWake": no_wake}));
            let (settings, errors) = spec.settings(&AutoscalerConfig::default(), &given);
            let errors = errors.into_iter().map(|error| error.key).collect::<Vec<_>>();
            (settings.wake.no_wake.to_string(), settings.wake.no_wake_response.to_string(), errors)
        };
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(of(Value::Null), ("HEAD".into(), "204".into(), vec![]));
        assert_eq!(of(json!({"requests": "/a"})), ("/a".into(), "200 asleep".into(), vec![]));
        assert_eq!(
            of(json!({"requests": "get /", "response": "999"})),
            ("HEAD".into(), "204".into(), owned(&["spec.noWake.requests", "spec.noWake.response"]))
        );
    }

    #[test]
    fn waiting_page_of_the_spec_takes_precedence() {
        let has_page = |waiting_page: Value, given: &[(&str, &str)]| {
            let spec = spec(json!({"waitingPage": waiting_page}));
            spec.settings(&AutoscalerConfig::default(), &annotations(given)).0.wake.waiting_page
        };
        let given = [("waiting-page", "true")];
        assert!(has_page(Value::Null, &given) && has_page(json!(true), &[]));
        assert!(!has_page(Value::Null, &[]) && !has_page(json!(false), &given));
    }

    #[test]
    fn schedule_of_the_spec_takes_precedence() {
        let given = annotations(&[("schedule", "00:00-24:00: 2")]);
        let minimum = |schedule: Value| {
            let spec = spec(json!({"schedule": schedule}));
            let (mut settings, errors) = spec.settings(&AutoscalerConfig::default(), &given);
            let errors = errors.into_iter().map(|error| error.key).collect::<Vec<_>>();
            (settings.apply_schedule(0).map(|scheduled| scheduled.minimum), errors)
        };
        assert_eq!(minimum(Value::Null), (Some(2), vec![]));
        assert_eq!(minimum(json!("00:00-24:00: 4")), (Some(4), vec![]));
        assert_eq!(minimum(json!("always: 4")), (Some(2), vec!["spec.schedule".to_owned()]));
    }

    #[test]
    fn max_scale_limit_applies_only_to_scaler_direct() {
        let mut config = AutoscalerConfig::default();
        (config.defaults.scale.max, config.limits.max) = (5, 10);
        let largest = |scaler| {
            let (settings, errors) =
                spec(json!({"scaler": scaler, "maxReplicas": 50})).settings(&config, &BTreeMap::new());
            (settings.scale.max, errors.len())
        };
        assert_eq!(largest("Direct"), (5, 1));
        assert_eq!(largest("HPA"), (50, 0));
    }

    /// The API server fills in defaults, and a spec field takes precedence over its annotation.
    #[test]
    fn fields_with_an_annotation_have_no_default_in_the_schema() {
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
