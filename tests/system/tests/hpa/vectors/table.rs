//! The vectors of one step, and the behaviors that they use.

use autoscaler::contract::{METRIC_DESIRED, METRIC_RPS};
use serde_json::{Value, json};
use system_tests::traffic::simulated_activator::ReportedLoad;
use system_tests::workloads::scale_target::ScaleTarget;

use super::vector::{DISABLED, NO_METRIC, Vector};

pub(super) fn tolerance_0() -> Value {
    json!({"scaleUp": {"tolerance": "0"}, "scaleDown": {"tolerance": "0"}})
}

/// Scale-down without stabilization, by at most half in a minute.
pub(super) fn half_per_minute() -> Value {
    json!({"scaleDown": {
        "stabilizationWindowSeconds": 0,
        "policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}],
    }})
}

pub(super) fn down_at_once() -> Value {
    json!({"scaleDown": {"stabilizationWindowSeconds": 0}})
}

/// The policies that the API server fills in where a behavior is given.
pub(super) fn default_policies() -> Value {
    json!({"scaleUp": {"stabilizationWindowSeconds": 0}})
}

/// The default policies over a period of several HPA syncs.
pub(super) fn slow_default_policies() -> Value {
    json!({"scaleUp": {"policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 60},
        {"type": "Percent", "value": 100, "periodSeconds": 60},
    ]}})
}

/// The target is 70 unless set. Where the load is a multiple of the target, the expected size is
/// exact.
pub(super) fn arithmetic() -> Vec<Vector> {
    let hundred = |target: &mut ScaleTarget| target.target = "100";
    let too_few = ("ScalingLimited", "True", "TooFewReplicas");
    vec![
        Vector::new("v1", 350.0, &[4, 5]),
        Vector::new("v2-tolerated", 286.0, &[4]),
        Vector::new("v2-exact", 286.0, &[4, 5]).behavior(tolerance_0()),
        Vector::new("v3", 315.0, &[4, 5]),
        Vector::new("v4", 1100.0, &[10]).with(hundred),
        Vector::new("v5", 900.0, &[10]).with(hundred),
        Vector::new("v6-little", 0.001, &[1]).with(|target| target.bounds.0 = 0).behavior(down_at_once()),
        Vector::new("v6-nothing", 0.0, &[3, 1]).expecting(too_few).behavior(down_at_once()),
        Vector::new("v7-nothing", 0.0, &[1])
            .expecting(too_few)
            .behavior(down_at_once())
            .with(|target| target.reported_replicas = Some(0)),
        Vector::new("v7-more", 70.001, &[1, 2]).with(|target| target.reported_replicas = Some(0)),
        Vector {
            load: [100.0, 100.0, 150.0].map(ReportedLoad::Concurrency).into(),
            ..Vector::new("v8", 0.0, &[4, 5])
        },
        Vector::new("v11-tolerated", 1400.0, &[20, 21]).with(|target| target.reported_replicas = Some(21)),
        Vector::new("v11-exact", 1400.0, &[20])
            .behavior(tolerance_0())
            .with(|target| target.reported_replicas = Some(21)),
        Vector { load: vec![ReportedLoad::Rate(350.0)], ..Vector::new("of-rate", 0.0, &[4, 5]) }
            .with(|target| target.metric = METRIC_RPS),
        Vector::new("of-decision", 350.0, &[4, 5])
            .with(|target| (target.metric, target.target) = (METRIC_DESIRED, "1")),
    ]
}

pub(super) fn errors() -> Vec<Vector> {
    vec![
        Vector::without_reports("v9-no-data", &[4], NO_METRIC),
        Vector::new("v9-unknown", 350.0, &[4])
            .expecting(NO_METRIC)
            .with(|target| target.metric = "unknown-metric-2"),
        Vector::new("v10-less", 210.0, &[5])
            .expecting(NO_METRIC)
            .with(|target| target.has_unknown_metric = true),
        Vector::new("v10-more", 560.0, &[5, 8]).with(|target| target.has_unknown_metric = true),
    ]
}

pub(super) fn limits() -> Vec<Vector> {
    let up_limit = ("ScalingLimited", "True", "ScaleUpLimit");
    let up = |name, sizes: [i32; 2]| Vector::new(name, 7000.0, &sizes).behavior(default_policies());
    let half = |name, sizes: &[i32]| {
        Vector::new(name, 0.0, sizes).behavior(half_per_minute()).with(|target| target.bounds.0 = 0)
    };
    let kpa = json!({"scaleUp": {"policies": [{"type": "Percent", "value": 99900, "periodSeconds": 15}]}});
    vec![
        up("v12-of-1", [1, 5]),
        up("v12-of-3", [3, 7]),
        up("v12-of-5", [5, 10]),
        Vector::new("v13", 7000.0, &[4, 8]).behavior(slow_default_policies()).expecting(up_limit),
        Vector::new("v15", 7000.0, &[3, 50]).behavior(kpa).with(|target| target.bounds.1 = 50).expecting((
            "ScalingLimited",
            "True",
            "TooManyReplicas",
        )),
        half("v16-of-1", &[1, 0]),
        half("v16-of-2", &[2, 1]),
        half("v16-of-3", &[3, 1]),
        half("v16-of-5", &[5, 2]),
        half("v16-of-9", &[9, 4]),
        half("v16-of-10", &[10, 5]),
        Vector::new("v17", 350.0, &[20, 5]).behavior(down_at_once()),
    ]
}

/// These have no reports, so the HPA acts without a metric.
pub(super) fn without_metric() -> Vec<Vector> {
    let bounds = |min, max| move |target: &mut ScaleTarget| target.bounds = (min, max);
    vec![
        Vector::without_reports("v20", &[60, 50], NO_METRIC).with(bounds(1, 50)),
        Vector::without_reports("v21", &[1, 2], NO_METRIC).with(bounds(2, 50)),
        Vector::without_reports("v22", &[0], DISABLED).with(bounds(1, 50)),
        Vector::without_reports("v24", &[0], DISABLED).with(bounds(0, 50)),
    ]
}

pub(super) fn ambiguous_selectors() -> Vec<Vector> {
    let ambiguous = ("ScalingActive", "False", "AmbiguousSelector");
    let one = |name| Vector::new(name, 350.0, &[4]).expecting(ambiguous);
    vec![one("v26-a").with(|target| target.selected_app = "v26-b".to_owned()), one("v26-b")]
}
