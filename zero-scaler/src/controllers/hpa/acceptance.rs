//! What an HPA asks of us, and what is wrong with it. Pure: objects in, verdict out.
//!
//! Read by the adoption, which makes a PodAutoscaler of it, and by the PodAutoscaler's status, which repeats the words.

use std::collections::BTreeMap;

use crate::kubernetes::reasons::Reason;
use autoscaler::api::{MetricName, PodAutoscalerSpec, ScaleTargetRef, Scaler};
use autoscaler::contract::quantity::parse_milli;
use autoscaler::contract::{
    CONTAINER_CONCURRENCY, GROUP, METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS, SCALE_TO_ZERO,
    SERVICE_SELECTOR,
};
use autoscaler::settings::AutoscalerConfig;
use k8s_openapi::api::autoscaling::v2::{
    CrossVersionObjectReference, ExternalMetricSource, HPAScalingRules, HorizontalPodAutoscaler,
    HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec, MetricSpec, MetricTarget,
    ObjectMetricSource,
};
use kube::ResourceExt;

/// Requests at a time that one pod may be limited to.
const MOST_CONCURRENT: u32 = 1000;
/// The reason of settings that are ignored.

/// What an HPA asks of us.
#[derive(Clone, Debug, PartialEq)]
pub enum HpaAcceptance {
    /// Nothing: it has no metric of ours.
    Foreign,
    /// Something that cannot be done.
    Rejected(HpaProblem),
    /// To scale this.
    Accepted(Box<AcceptedHpa>),
}

/// What is made of an HPA.
#[derive(Clone, Debug, PartialEq)]
pub struct AcceptedHpa {
    /// The PodAutoscaler's spec.
    pub spec: PodAutoscalerSpec,
    /// The PodAutoscaler's annotations: those of ours that the HPA has.
    pub annotations: BTreeMap<String, String>,
    /// What works, but not as well as it could.
    pub advice: Vec<HpaProblem>,
}

/// A metric of ours in an HPA.
struct Source<'a> {
    name: &'a str,
    /// The Service that it names.
    service: Option<&'a str>,
    target: &'a MetricTarget,
}

/// What is wrong, in words that name the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpaProblem {
    /// One CamelCase word.
    pub reason: Reason,
    /// A sentence.
    pub message: String,
}

// === impl Problem ===

impl HpaProblem {
    /// A problem.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

// === impl Source ===

impl<'a> Source<'a> {
    /// A metric, if it is ours; with `custom`, one of type Object may be.
    fn of(metric: &'a MetricSpec, custom: bool) -> Option<Self> {
        match (&metric.external, &metric.object) {
            (Some(external), _) => Self::external(external),
            (None, Some(object)) if custom => Self::object(object),
            _ => None,
        }
    }

    /// A metric of type External, if it is ours.
    fn external(source: &'a ExternalMetricSource) -> Option<Self> {
        let labels = source.metric.selector.as_ref().and_then(|s| s.match_labels.as_ref());
        let service = labels.and_then(|labels| labels.get(SERVICE_SELECTOR)).map(String::as_str);
        let name = source.metric.name.as_str();
        let ours = match name {
            METRIC_DESIRED => true,
            // Common words: with another selector they may well be somebody else's metrics.
            METRIC_CONCURRENCY | METRIC_RPS => service.is_some() || labels.is_none_or(BTreeMap::is_empty),
            _ => false,
        };
        ours.then_some(Self { name, service, target: &source.target })
    }

    /// A metric of type Object, if it is ours: of a Service. One of a PodAutoscaler has its PodAutoscaler already.
    fn object(source: &'a ObjectMetricSource) -> Option<Self> {
        let (name, object) = (source.metric.name.as_str(), &source.described_object);
        let ours =
            matches!(name, METRIC_DESIRED | METRIC_CONCURRENCY | METRIC_RPS) && object.kind == "Service";
        ours.then_some(Self { name, service: Some(&object.name), target: &source.target })
    }
}

/// Reads an HPA. `siblings` are the other HPAs of its namespace; `custom` says whether custom.metrics.k8s.io is ours.
pub fn accept<'a>(
    hpa: &HorizontalPodAutoscaler,
    siblings: impl IntoIterator<Item = &'a HorizontalPodAutoscaler>,
    config: &AutoscalerConfig,
    custom: bool,
) -> HpaAcceptance {
    let spec = &hpa.spec;
    let ours = our_metrics(spec, custom);
    let Some(metric) = ours.first() else { return HpaAcceptance::Foreign };
    if ours.len() > 1 {
        return HpaAcceptance::Rejected(HpaProblem::new(
            Reason::MultipleMetrics,
            "the HPA has several metrics of Rouse; keep one of concurrency, requests-per-second and desired-replicas",
        ));
    }
    if let Some(rival) = rival(spec, siblings) {
        return HpaAcceptance::Rejected(HpaProblem::new(
            Reason::MultipleHPAs,
            format!("the HPA {rival} scales the same {}; delete one of the two", spec.scale_target_ref.kind),
        ));
    }
    if let Some(problem) = ambiguous_selector(hpa) {
        return HpaAcceptance::Rejected(problem);
    }
    match read(hpa, spec, metric) {
        Ok(pod_autoscaler) => {
            let annotations = our_annotations(hpa);
            let bad = [scale_to_zero(hpa).err(), container_concurrency(hpa).err()];
            let mut advice: Vec<HpaProblem> = bad.into_iter().flatten().collect();
            advice.extend(stuck_at_zero(spec));
            advice.extend(behavior_advice(spec));
            let (_, errors) = pod_autoscaler.settings(config, &annotations);
            advice.extend(
                errors.iter().map(|e| HpaProblem::new(Reason::BadSetting, format!("{e}; it is ignored"))),
            );
            HpaAcceptance::Accepted(Box::new(AcceptedHpa { spec: pod_autoscaler, annotations, advice }))
        }
        Err(problem) => HpaAcceptance::Rejected(problem),
    }
}

/// The metrics of an HPA that are ours; with `custom` also those of type Object.
fn our_metrics(spec: &HorizontalPodAutoscalerSpec, custom: bool) -> Vec<Source<'_>> {
    let of = |metric| Source::of(metric, custom);
    spec.metrics.iter().flatten().filter_map(of).collect()
}

fn rival<'a>(
    spec: &HorizontalPodAutoscalerSpec,
    siblings: impl IntoIterator<Item = &'a HorizontalPodAutoscaler>,
) -> Option<String> {
    let same = |a: &CrossVersionObjectReference, b: &CrossVersionObjectReference| {
        let group = |r: &CrossVersionObjectReference| {
            r.api_version.as_deref().and_then(|v| v.split_once('/')).map(|(group, _)| group.to_owned())
        };
        a.kind == b.kind && a.name == b.name && group(a) == group(b)
    };
    siblings
        .into_iter()
        .find(|s| same(&s.spec.scale_target_ref, &spec.scale_target_ref))
        .map(ResourceExt::name_any)
}

fn read(
    hpa: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
    source: &Source<'_>,
) -> Result<PodAutoscalerSpec, HpaProblem> {
    let (metric, target) = metric_and_target(source)?;
    let min_replicas = spec.min_replicas.unwrap_or(1);
    Ok(PodAutoscalerSpec {
        scale_target_ref: ScaleTargetRef {
            api_version: spec.scale_target_ref.api_version.clone().unwrap_or_default(),
            kind: spec.scale_target_ref.kind.clone(),
            name: spec.scale_target_ref.name.clone(),
        },
        scaler: Scaler::Hpa,
        service: service(source)?,
        metric: Some(metric),
        target,
        // No limit here leaves the sidecars theirs.
        container_concurrency: container_concurrency(hpa).unwrap_or(0),
        min_replicas: Some(min_replicas.max(1)),
        max_replicas: Some(spec.max_replicas),
        // An HPA with minReplicas 0 writes 0 by itself; its workload must be held and woken all the same.
        scale_to_zero: scale_to_zero(hpa).unwrap_or(false) || min_replicas == 0,
    })
}

/// What is measured, and what one pod should carry of it. `desired-replicas` is divided by 1 and says nothing of the latter.
fn metric_and_target(source: &Source<'_>) -> Result<(MetricName, Option<String>), HpaProblem> {
    let average = source.target.average_value.as_ref().filter(|_| source.target.type_ == "AverageValue");
    let Some(average) = average else {
        return Err(HpaProblem::new(
            Reason::TargetNotAverageValue,
            format!(
                "the target of {} is of type {}; use type: AverageValue with averageValue, the value one pod should carry",
                source.name, source.target.type_
            ),
        ));
    };
    let milli = parse_milli(&average.0);
    match (source.name, milli) {
        (METRIC_DESIRED, Ok(1000)) => Ok((MetricName::Concurrency, None)),
        (METRIC_DESIRED, _) => Err(bad_target(format!(
            "the target of {METRIC_DESIRED} is {}; it must be averageValue: \"1\"",
            average.0
        ))),
        (name, Ok(1..)) => {
            let rps = name == METRIC_RPS;
            let metric = if rps { MetricName::RequestsPerSecond } else { MetricName::Concurrency };
            Ok((metric, Some(average.0.clone())))
        }
        (_, Ok(_)) => Err(bad_target(format!("the target is {}; it must be above 0", average.0))),
        (_, Err(error)) => Err(bad_target(format!("the target: {error}"))),
    }
}

fn bad_target(message: String) -> HpaProblem {
    HpaProblem::new(Reason::BadTarget, message)
}

fn service(source: &Source<'_>) -> Result<String, HpaProblem> {
    source.service.filter(|name| !name.is_empty()).map(str::to_owned).ok_or_else(|| {
        HpaProblem::new(Reason::ServiceMissing,
            format!(
                "the metric {} does not name the Service; add selector: {{matchLabels: {{{SERVICE_SELECTOR}: <Service name>}}}}",
                source.name
            ),
        )
    })
}

fn scale_to_zero(hpa: &HorizontalPodAutoscaler) -> Result<bool, HpaProblem> {
    let Some(text) = hpa.annotations().get(SCALE_TO_ZERO) else { return Ok(false) };
    text.parse().map_err(|_| {
        HpaProblem::new(
            Reason::BadSetting,
            format!("{SCALE_TO_ZERO} is {text:?}, but must be \"true\" or \"false\"; it is ignored, so the workload stays awake"),
        )
    })
}

fn container_concurrency(hpa: &HorizontalPodAutoscaler) -> Result<u32, HpaProblem> {
    let Some(text) = hpa.annotations().get(CONTAINER_CONCURRENCY) else { return Ok(0) };
    text.parse().ok().filter(|n| *n <= MOST_CONCURRENT).ok_or_else(|| {
        HpaProblem::new(
            Reason::BadSetting,
            format!(
                "{CONTAINER_CONCURRENCY} is {text:?}, but must be a number from 0 to {MOST_CONCURRENT}; it is ignored, as if \
                 there were no limit"
            ),
        )
    })
}

fn our_annotations(hpa: &HorizontalPodAutoscaler) -> BTreeMap<String, String> {
    let prefix = format!("{GROUP}/");
    hpa.annotations()
        .iter()
        .filter(|(k, _)| k.starts_with(&prefix))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

/// Its own controller does nothing for it, because another HPA's target has the same pods.
fn ambiguous_selector(hpa: &HorizontalPodAutoscaler) -> Option<HpaProblem> {
    let given_up = hpa.status.as_ref()?.conditions.iter().flatten().find(|c| is_ambiguous(c))?;
    let words = given_up.message.as_deref().unwrap_or_default();
    Some(HpaProblem::new(
        Reason::AmbiguousSelector,
        format!(
            "the HPA is not followed by its controller: {words}; give the pods of each target labels of their own"
        ),
    ))
}

/// Whether a condition of an HPA says that its pods are another's as well.
pub(crate) fn is_ambiguous(condition: &HorizontalPodAutoscalerCondition) -> bool {
    condition.reason.as_deref() == Some(Reason::AmbiguousSelector.as_str())
}

/// A percentage of no pods is none.
fn stuck_at_zero(spec: &HorizontalPodAutoscalerSpec) -> Option<HpaProblem> {
    let rules = spec.behavior.as_ref()?.scale_up.as_ref()?;
    let policies = rules.policies.as_ref()?;
    let stuck = spec.min_replicas == Some(0)
        && !policies.is_empty()
        && policies.iter().all(|policy| policy.type_ == "Percent");
    stuck.then(|| {
        HpaProblem::new(Reason::OnlyPercentPolicies,
            "with minReplicas: 0 and nothing but Percent policies in spec.behavior.scaleUp the HPA never leaves zero by itself; \
             add a policy of type: Pods, or leave zero to Rouse by minReplicas: 1 and the annotation scale-to-zero",
        )
    })
}

fn behavior_advice(spec: &HorizontalPodAutoscalerSpec) -> Vec<HpaProblem> {
    let Some(behavior) = &spec.behavior else {
        return vec![HpaProblem::new(
            Reason::BehaviorMissing,
            "without spec.behavior the HPA waits 5 minutes before it scales down and ignores changes up to 10 %; \
             set behavior.scaleUp and behavior.scaleDown with stabilizationWindowSeconds: 0 and tolerance: \"0\"",
        )];
    };
    let zero = |rules: &Option<HPAScalingRules>| {
        let tolerance = rules.as_ref().and_then(|r| r.tolerance.as_ref());
        tolerance.is_some_and(|t| parse_milli(&t.0) == Ok(0))
    };
    let lacking: Vec<&str> =
        [("scaleUp", zero(&behavior.scale_up)), ("scaleDown", zero(&behavior.scale_down))]
            .into_iter()
            .filter(|(_, zero)| !zero)
            .map(|(direction, _)| direction)
            .collect();
    if lacking.is_empty() {
        return Vec::new();
    }
    vec![HpaProblem::new(
        Reason::ToleranceNotZero,
        format!(
            "spec.behavior.{} has no tolerance: \"0\", so the HPA ignores changes up to the cluster's tolerance (10 % \
             by default); set it (Kubernetes 1.35 and later keep the field)",
            lacking.join(" and spec.behavior.")
        ),
    )]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hpa() -> Value {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "annotations": {
                "autoscaling.rouse.dev/scale-to-zero": "true",
                "autoscaling.rouse.dev/window": "30s",
                "autoscaling.rouse.dev/container-concurrency": "10",
                "example.com/other": "x",
            }},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 50,
                "metrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}},
                    {"type": "External", "external": {
                        "metric": {"name": "concurrency", "selector": {"matchLabels": {"service": "web"}}},
                        "target": {"type": "AverageValue", "averageValue": "70"}}},
                ],
                "behavior": {"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}},
            },
        })
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut hpa = hpa();
        *hpa.pointer_mut(pointer).unwrap() = value;
        hpa
    }

    fn verdict(hpa: Value) -> HpaAcceptance {
        accept(&serde_json::from_value(hpa).unwrap(), [], &AutoscalerConfig::default(), true)
    }

    fn accepted(hpa: Value) -> AcceptedHpa {
        match verdict(hpa) {
            HpaAcceptance::Accepted(accepted) => *accepted,
            other => panic!("{other:?}"),
        }
    }

    fn reason(hpa: Value) -> &'static str {
        match verdict(hpa) {
            HpaAcceptance::Rejected(problem) => problem.reason.as_str(),
            HpaAcceptance::Accepted(accepted) => accepted.advice.first().map_or("", |p| p.reason.as_str()),
            HpaAcceptance::Foreign => "foreign",
        }
    }

    const EXTERNAL: &str = "/spec/metrics/1/external";

    #[test]
    fn a_complete_hpa_becomes_a_pod_autoscaler() {
        let accepted = accepted(hpa());
        assert_eq!(
            serde_json::to_value(&accepted.spec).unwrap(),
            json!({
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "scaler": "HPA", "service": "web", "metric": "concurrency", "target": "70",
                "containerConcurrency": 10, "minReplicas": 2, "maxReplicas": 50, "scaleToZero": true,
            })
        );
        assert_eq!(accepted.annotations.len(), 3);
        assert_eq!(accepted.advice, []);
    }

    #[test]
    fn desired_replicas_leave_the_target_to_annotations_and_the_cluster() {
        let mut hpa = with(&format!("{EXTERNAL}/metric/name"), json!("desired-replicas"));
        assert_eq!(reason(hpa.clone()), "BadTarget");
        hpa["spec"]["metrics"][1]["external"]["target"]["averageValue"] = json!("1");
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/target"] = json!("5");
        let accepted = accepted(hpa);
        let (spec, config) = (accepted.spec, AutoscalerConfig::default());
        assert_eq!((spec.metric, spec.target.as_deref()), (Some(MetricName::Concurrency), None));
        let (settings, _) = spec.settings(&config, &accepted.annotations);
        assert_eq!(spec.target(&settings).unwrap().target, 3.5);
    }

    #[test]
    fn the_hpa_rules_over_annotations_on_it() {
        let mut hpa = hpa();
        for (key, value) in [("min-scale", "7"), ("max-scale", "3"), ("target", "5"), ("metric", "rps")] {
            hpa["metadata"]["annotations"][format!("autoscaling.rouse.dev/{key}")] = json!(value);
        }
        let accepted = accepted(hpa);
        assert_eq!(accepted.advice, []);
        let (settings, _) = accepted.spec.settings(&AutoscalerConfig::default(), &accepted.annotations);
        assert_eq!((settings.min_scale, settings.max_scale), (2, 50));
        assert_eq!(accepted.spec.target(&settings).unwrap().target, 70.0);
        assert_eq!(
            accepted.spec.metric_name(&settings),
            autoscaler::contract::metric_name::MetricName::Concurrency
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(reason(with(&format!("{EXTERNAL}/metric/name"), json!("queue-length"))), "foreign");
        assert_eq!(reason(with(&format!("{EXTERNAL}/metric/selector"), Value::Null)), "ServiceMissing");
        assert_eq!(
            reason(with(&format!("{EXTERNAL}/metric/selector/matchLabels"), json!({"app": "x"}))),
            "foreign"
        );
        assert_eq!(
            reason(with(&format!("{EXTERNAL}/target"), json!({"type": "Value", "value": "70"}))),
            "TargetNotAverageValue"
        );
        assert_eq!(reason(with(&format!("{EXTERNAL}/target/averageValue"), json!("0"))), "BadTarget");
        assert_eq!(
            reason(with("/metadata/annotations", json!({"autoscaling.rouse.dev/window": "1s"}))),
            "BadSetting"
        );
        assert_eq!(reason(with("/spec/behavior", Value::Null)), "BehaviorMissing");
        assert_eq!(
            reason(with("/spec/behavior", json!({"scaleUp": {"tolerance": "0"}}))),
            "ToleranceNotZero"
        );
        let first = hpa()["spec"]["metrics"][1].clone();
        assert_eq!(reason(with("/spec/metrics", json!([first, first]))), "MultipleMetrics");
    }

    #[test]
    fn a_bad_annotation_is_told_and_ignored() {
        let annotated = |key: &str, value: &str| accepted(with("/metadata/annotations", json!({key: value})));
        let asleep = annotated(SCALE_TO_ZERO, "yes");
        assert_eq!((asleep.advice[0].reason, asleep.spec.scale_to_zero), (Reason::BadSetting, false));
        let unlimited = annotated(CONTAINER_CONCURRENCY, "-1");
        assert_eq!(
            (unlimited.advice[0].reason, unlimited.spec.container_concurrency),
            (Reason::BadSetting, 0)
        );
        for words in [CONTAINER_CONCURRENCY, "\"-1\"", "0 to 1000"] {
            assert!(unlimited.advice[0].message.contains(words), "{}", unlimited.advice[0].message);
        }
    }

    #[test]
    fn an_hpa_that_shares_its_pods_with_another_is_refused() {
        let mut hpa = hpa();
        hpa["status"] = json!({"conditions": [{"type": "ScalingActive", "status": "False",
            "reason": "AmbiguousSelector", "message": "pods by selector app=web are controlled by multiple HPAs"}]});
        assert!(matches!(
            verdict(hpa),
            HpaAcceptance::Rejected(HpaProblem { reason: Reason::AmbiguousSelector, .. })
        ));
    }

    #[test]
    fn a_metric_of_a_service_is_as_good_where_custom_metrics_are_ours() {
        let mut object = hpa();
        let target = object["spec"]["metrics"][1]["external"]["target"].clone();
        object["spec"]["metrics"] = json!([{"type": "Object", "object": {
            "metric": {"name": "concurrency"}, "target": target,
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "web"},
        }}]);
        assert_eq!(accepted(object.clone()).spec, accepted(hpa()).spec);
        let parsed = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(accept(&parsed, [], &AutoscalerConfig::default(), false), HpaAcceptance::Foreign);
        object["spec"]["metrics"][0]["object"]["describedObject"]["kind"] = "Ingress".into();
        assert_eq!(verdict(object), HpaAcceptance::Foreign);
    }

    #[test]
    fn two_hpas_on_one_target_are_refused() {
        let hpa: HorizontalPodAutoscaler = serde_json::from_value(hpa()).unwrap();
        let mut rival = hpa.clone();
        rival.metadata.name = Some("other".into());
        let verdict = accept(&hpa, [&rival], &AutoscalerConfig::default(), false);
        assert!(
            matches!(verdict, HpaAcceptance::Rejected(HpaProblem { reason: Reason::MultipleHPAs, .. })),
            "{verdict:?}"
        );
        let mut elsewhere = rival;
        elsewhere.spec.scale_target_ref.name = "api".into();
        let verdict = accept(&hpa, [&elsewhere], &AutoscalerConfig::default(), false);
        assert!(matches!(verdict, HpaAcceptance::Accepted(_)));
    }

    #[test]
    fn an_hpa_that_could_not_leave_zero_is_told_so() {
        let percent = json!({"type": "Percent", "value": 900, "periodSeconds": 15});
        let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
        let with_policies = |policies: Value, least: i32| {
            let up = json!({"tolerance": "0", "policies": policies});
            let mut hpa = with("/spec/behavior", json!({"scaleUp": up, "scaleDown": {"tolerance": "0"}}));
            hpa["spec"]["minReplicas"] = json!(least);
            hpa
        };
        assert_eq!(reason(with_policies(json!([percent]), 0)), "OnlyPercentPolicies");
        assert_eq!(reason(with_policies(json!([percent]), 1)), "");
        assert_eq!(reason(with_policies(json!([percent, pods]), 0)), "");
        assert_eq!(reason(with_policies(json!([]), 0)), "");
    }

    #[test]
    fn an_hpa_that_goes_to_zero_itself_is_held_and_woken() {
        let mut hpa = with("/spec/minReplicas", json!(0));
        hpa["metadata"]["annotations"] = json!({});
        let spec = accepted(hpa).spec;
        assert_eq!((spec.min_replicas, spec.scale_to_zero), (Some(1), true));
    }
}
