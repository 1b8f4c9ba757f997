//! One test for each rule of acceptance, on JSON as users write it.

use serde_json::{Value, json};

use super::*;
use crate::api::MetricName;
use crate::contract::{CONTAINER_CONCURRENCY, SCALE_TO_ZERO};

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

fn evaluate(hpa: Value) -> HpaAcceptance {
    accept(&serde_json::from_value(hpa).unwrap(), [], &AutoscalerConfig::default(), true)
}

fn accepted(hpa: Value) -> AcceptedHpa {
    match evaluate(hpa) {
        HpaAcceptance::Accepted(accepted) => *accepted,
        other => panic!("{other:?}"),
    }
}

fn reason(hpa: Value) -> &'static str {
    match evaluate(hpa) {
        HpaAcceptance::Rejected(problem) => problem.reason.as_str(),
        HpaAcceptance::Accepted(accepted) => accepted.advice.first().map_or("", |p| p.reason.as_str()),
        HpaAcceptance::Foreign => "foreign",
    }
}

const EXTERNAL: &str = "/spec/metrics/1/external";

#[test]
fn accepts_complete_hpa() {
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
fn takes_target_of_desired_replicas_from_annotations() {
    let mut hpa = with(&format!("{EXTERNAL}/metric/name"), json!("desired-replicas"));
    assert_eq!(reason(hpa.clone()), "BadTarget");
    hpa["spec"]["metrics"][1]["external"]["target"]["averageValue"] = json!("1");
    hpa["metadata"]["annotations"]["autoscaling.rouse.dev/target"] = json!("5");
    let accepted = accepted(hpa);
    let (spec, config) = (accepted.spec, AutoscalerConfig::default());
    assert_eq!((spec.metric, spec.target.as_deref()), (Some(MetricName::Concurrency), None));
    let (settings, _) = spec.settings(&config, &accepted.annotations);
    assert_eq!(spec.target(None, &settings).unwrap().target, 3.5);
}

#[test]
fn prefers_hpa_fields_over_annotations() {
    let mut hpa = hpa();
    for (key, value) in [("target", "5"), ("metric", "rps")] {
        hpa["metadata"]["annotations"][format!("autoscaling.rouse.dev/{key}")] = json!(value);
    }
    let accepted = accepted(hpa);
    assert_eq!(accepted.advice, []);
    let (settings, _) = accepted.spec.settings(&AutoscalerConfig::default(), &accepted.annotations);
    assert_eq!((settings.scale.min, settings.scale.max), (2, 50));
    assert_eq!(accepted.spec.target(None, &settings).unwrap().target, 70.0);
    assert_eq!(accepted.spec.metric_name(&settings), MetricName::Concurrency);
}

#[test]
fn reports_reason_of_each_problem() {
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
    let first = hpa()["spec"]["metrics"][1].clone();
    assert_eq!(reason(with("/spec/metrics", json!([first, first]))), "MultipleMetrics");
    let unknown = json!({"autoscaling.rouse.dev/stable-window": "6s"});
    assert_eq!(reason(with("/metadata/annotations", unknown)), "UnknownAnnotation");
    let misplaced = json!({"autoscaling.rouse.dev/app-port": "80"});
    assert_eq!(reason(with("/metadata/annotations", misplaced)), "MisplacedAnnotation");
}

#[test]
fn names_defaults_of_the_hpa_from_the_size_on_at_which_they_matter() {
    let without_tolerance = json!({"scaleUp": {"tolerance": "0"}});
    for (behavior, expected) in [(Value::Null, "BehaviorMissing"), (without_tolerance, "ToleranceNotZero")] {
        let reason = |least: i32, current: Value, desired: i32| {
            let mut hpa = with("/spec/behavior", behavior.clone());
            hpa["spec"]["minReplicas"] = json!(least);
            hpa["status"] = json!({"currentReplicas": current, "desiredReplicas": desired});
            reason(hpa)
        };
        assert_eq!(reason(1, Value::Null, 0), "", "a new HPA");
        assert_eq!(reason(1, json!(9), 9), "");
        for (least, current, desired) in [(1, 10, 9), (1, 9, 10), (10, 0, 0)] {
            assert_eq!(reason(least, json!(current), desired), expected, "{least} {current} {desired}");
        }
    }
    assert_eq!(reason(with("/spec/behavior", Value::Null)), "", "without a status");
}

#[test]
fn names_a_disabled_direction_that_matters() {
    let rules = |policy: &str| json!({"tolerance": "0", "selectPolicy": policy});
    let reason = |zero: &str, up: &str, down: &str| {
        let mut hpa = with("/spec/behavior", json!({"scaleUp": rules(up), "scaleDown": rules(down)}));
        hpa["metadata"]["annotations"] = json!({"autoscaling.rouse.dev/scale-to-zero": zero});
        reason(hpa)
    };
    assert_eq!(reason("true", "Max", "Disabled"), "ScalingDisabled");
    assert_eq!(reason("false", "Max", "Disabled"), "", "it does not go to zero");
    assert_eq!(reason("false", "Disabled", "Max"), "ScalingDisabled");
}

/// An HPA on CPU that only wakes and goes to zero by Rouse.
fn without_metric() -> Value {
    let mut hpa = hpa();
    hpa["spec"]["metrics"].as_array_mut().unwrap().truncate(1);
    hpa["spec"]["behavior"] = Value::Null;
    for (key, value) in [("metric", "none"), ("service", "web")] {
        hpa["metadata"]["annotations"][format!("autoscaling.rouse.dev/{key}")] = json!(value);
    }
    hpa
}

#[test]
fn accepts_hpa_on_its_own_metrics_if_annotated() {
    let accepted = accepted(without_metric());
    let spec = &accepted.spec;
    assert_eq!((spec.scaler, spec.service.as_str(), spec.metric), (Scaler::Other, "web", None));
    assert_eq!((spec.min_replicas, spec.max_replicas, spec.scale_to_zero), (Some(2), Some(50), true));
    assert_eq!(accepted.advice, [], "the behavior is for its own metrics");
    let (settings, _) = spec.settings(&AutoscalerConfig::default(), &accepted.annotations);
    assert!(!spec.learns(&settings));
}

#[test]
fn ignores_whitespace_around_annotations() {
    let mut hpa = without_metric();
    for annotation in hpa["metadata"]["annotations"].as_object_mut().unwrap().values_mut() {
        *annotation = json!(format!(" {} ", annotation.as_str().unwrap()));
    }
    let (spaced, plain) = (accepted(hpa), accepted(without_metric()));
    assert_eq!((spaced.spec, spaced.advice), (plain.spec, plain.advice));
}

#[test]
fn hpa_on_its_own_metrics_names_its_service_and_has_no_metric_of_rouse() {
    let mut unnamed = without_metric();
    unnamed["metadata"]["annotations"]["autoscaling.rouse.dev/service"] = json!("");
    assert_eq!(reason(unnamed), "ServiceMissing");
    let mut both = hpa();
    both["metadata"]["annotations"]["autoscaling.rouse.dev/metric"] = json!("none");
    assert_eq!(reason(both), "MultipleMetrics");
    let mut unannotated = without_metric();
    unannotated["metadata"]["annotations"] = json!({"autoscaling.rouse.dev/service": "web"});
    assert_eq!(reason(unannotated), "foreign");
}

#[test]
fn reports_and_ignores_invalid_annotations() {
    let annotated = |key: &str, value: &str| accepted(with("/metadata/annotations", json!({key: value})));
    let invalid = annotated(SCALE_TO_ZERO, "yes");
    assert_eq!((invalid.advice[0].reason, invalid.spec.scale_to_zero), (Reason::BadSetting, false));
    let unlimited = annotated(CONTAINER_CONCURRENCY, "-1");
    assert_eq!((unlimited.advice[0].reason, unlimited.spec.container_concurrency), (Reason::BadSetting, 0));
    for part in [CONTAINER_CONCURRENCY, "\"-1\"", "0 to 1000"] {
        let message = unlimited.advice[0].message();
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn rejects_hpa_with_ambiguous_selector() {
    let mut hpa = hpa();
    hpa["status"] = json!({"conditions": [{"type": "ScalingActive", "status": "False",
        "reason": "AmbiguousSelector", "message": "pods by selector app=web are controlled by multiple HPAs"}]});
    assert!(matches!(
        evaluate(hpa),
        HpaAcceptance::Rejected(Problem { reason: Reason::AmbiguousSelector, .. })
    ));
}

#[test]
fn accepts_object_metric_of_service_if_custom_metrics_are_served() {
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
    assert_eq!(evaluate(object), HpaAcceptance::Foreign);
}

#[test]
fn reads_metric_selector_as_the_hpa_controller_does() {
    let with_selector = |selector: Value| with(&format!("{EXTERNAL}/metric/selector"), selector);
    let expression = |label: &str, operator: &str, values: Value| json!({"key": label, "operator": operator, "values": values});
    for selector in [
        json!({"matchExpressions": [expression("service", "In", json!(["web"]))]}),
        json!({"matchLabels": {"service": "web"}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}),
    ] {
        assert_eq!(accepted(with_selector(selector.clone())).spec.service, "web", "{selector}");
    }
    for selector in [
        json!({"matchLabels": {"service": "web", "tier": "front"}}),
        json!({"matchLabels": {"service": "web"}, "matchExpressions": [expression("tier", "In", json!(["a"]))]}),
        json!({"matchExpressions": [expression("service", "In", json!(["web", "api"]))]}),
    ] {
        assert_eq!(reason(with_selector(selector.clone())), "InvalidMetricSelector", "{selector}");
    }
    let other = json!({"matchExpressions": [expression("queue", "In", json!(["orders"]))]});
    assert_eq!(reason(with_selector(other)), "foreign", "a metric of another adapter");
}

#[test]
fn object_metric_is_of_a_core_service_and_has_no_selector() {
    let metric = |described: Value, selector: Value| {
        let mut object = hpa();
        let target = object["spec"]["metrics"][1]["external"]["target"].clone();
        object["spec"]["metrics"] = json!([{"type": "Object", "object": {
            "metric": {"name": "concurrency", "selector": selector}, "target": target, "describedObject": described}}]);
        object
    };
    let of = |version: &str| json!({"apiVersion": version, "kind": "Service", "name": "web"});
    assert_eq!(accepted(metric(of("v1"), json!({}))).spec.service, "web");
    assert_eq!(reason(metric(of("serving.knative.dev/v1"), Value::Null)), "foreign");
    let selector = json!({"matchLabels": {"tier": "front"}});
    assert_eq!(reason(metric(of("v1"), selector)), "InvalidMetricSelector");
}

#[test]
fn rejects_second_hpa_of_same_target() {
    let hpa: HorizontalPodAutoscaler = serde_json::from_value(hpa()).unwrap();
    let mut other = hpa.clone();
    other.metadata.name = Some("other".into());
    let acceptance = accept(&hpa, [&other], &AutoscalerConfig::default(), false);
    assert!(
        matches!(acceptance, HpaAcceptance::Rejected(Problem { reason: Reason::MultipleHPAs, .. })),
        "{acceptance:?}"
    );
    let mut elsewhere = other;
    elsewhere.spec.scale_target_ref.name = "api".into();
    let acceptance = accept(&hpa, [&elsewhere], &AutoscalerConfig::default(), false);
    assert!(matches!(acceptance, HpaAcceptance::Accepted(_)));
}

#[test]
fn reports_hpa_that_cannot_leave_zero() {
    let percent = json!({"type": "Percent", "value": 900, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let with_policies = |policies: Value, min_replicas: i32| {
        let up = json!({"tolerance": "0", "policies": policies});
        let mut hpa = with("/spec/behavior", json!({"scaleUp": up, "scaleDown": {"tolerance": "0"}}));
        hpa["spec"]["minReplicas"] = json!(min_replicas);
        hpa
    };
    assert_eq!(reason(with_policies(json!([percent]), 0)), "OnlyPercentPolicies");
    assert_eq!(reason(with_policies(json!([percent]), 1)), "");
    assert_eq!(reason(with_policies(json!([percent, pods]), 0)), "");
    assert_eq!(reason(with_policies(json!([]), 0)), "");
}

#[test]
fn enables_scale_to_zero_for_hpa_with_min_replicas_0() {
    let mut hpa = with("/spec/minReplicas", json!(0));
    hpa["metadata"]["annotations"] = json!({});
    let spec = accepted(hpa).spec;
    assert_eq!((spec.min_replicas, spec.scale_to_zero), (Some(1), true));
}

#[test]
fn accepts_rps_as_alias_of_requests_per_second() {
    for name in ["rps", "requests-per-second"] {
        let hpa = with(&format!("{EXTERNAL}/metric/name"), json!(name));
        assert_eq!(accepted(hpa.clone()).spec.metric, Some(MetricName::RequestsPerSecond), "{name}");
        let of_another = with(
            &format!("{EXTERNAL}/metric"),
            json!({"name": name, "selector": {"matchLabels": {"app": "x"}}}),
        );
        assert_eq!(reason(of_another), "foreign", "{name}");
    }
}
