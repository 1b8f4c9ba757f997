use serde_json::{Value, json};

use super::*;
use crate::scaling::decider::DecisionRule;

/// The first line of most traces: target 70, rates 10 and 2, windows of 60 s and 6 s, two pods.
fn first() -> Value {
    json!({"t": 0.0, "spec": spec(&[]), "ready": 2})
}

fn spec(changes: &[(&str, Value)]) -> Value {
    let mut spec = json!({
        "metric": "concurrency", "target": 70.0, "totalTarget": 100.0, "targetBurstCapacity": 211.0,
        "stableWindowSeconds": 60, "panicWindowPercentage": 10.0, "panicThresholdPercentage": 200.0,
        "maxScaleUpRate": 10.0, "maxScaleDownRate": 2.0, "scaleDownDelaySeconds": 0,
        "activationScale": 1, "reachable": true, "aggregation": "linear",
    });
    for (field, value) in changes {
        spec[*field] = value.clone();
    }
    spec
}

fn stat(t: f64, concurrency: f64) -> Value {
    json!({"t": t, "stat": {
        "pod": "a", "concurrency": concurrency, "proxiedConcurrency": 0.0, "requestCount": 1.0, "proxiedRequestCount": 0.0
    }})
}

fn decide(t: f64) -> Value {
    json!({"t": t, "decide": true})
}

fn replay(lines: &[Value]) -> (Replay, Vec<ReplayedDecision>) {
    let mut replay = Replay::new();
    let decisions = lines.iter().filter_map(|line| replay.take(parsed(line)).unwrap()).collect();
    (replay, decisions)
}

fn parsed(line: &Value) -> TraceLine {
    serde_json::from_value(line.clone()).unwrap()
}

/// The error of the last of these lines.
fn rejection(lines: &[Value]) -> String {
    let (last, before) = lines.split_last().unwrap();
    replay(before).0.take(parsed(last)).unwrap_err().to_string()
}

/// The error of a first line with this value in its spec.
fn spec_rejection(field: &str, value: f64) -> String {
    rejection(&[json!({"t": 0.0, "spec": spec(&[(field, value.into())]), "ready": 1})])
}

fn parse_error(line: &str) -> String {
    serde_json::from_str::<TraceLine>(line).unwrap_err().to_string()
}

#[test]
fn result_has_last_rule_that_changed_it_and_whether_it_is_held() {
    let start =
        |changes: &[(&str, Value)], ready: u32| json!({"t": 0.0, "spec": spec(changes), "ready": ready});
    let rules = |lines: &[Value]| -> Vec<_> {
        let (_, decisions) = replay(lines);
        decisions.iter().map(|o| o.result.map(|v| (v.desired, v.rule, v.held))).collect()
    };

    let calm = [start(&[], 1), stat(1.0, 60.0), decide(1.0)];
    assert_eq!(rules(&calm), [Some((1, DecisionRule::Stable, false))]);

    // A panic, so the decision is held.
    let growth = [start(&[], 0), stat(1.0, 1000.0), decide(1.0)];
    assert_eq!(rules(&growth), [Some((10, DecisionRule::ScaleUpRate, true))]);

    // A load of exactly the limit is not limited.
    let allowed = [start(&[], 0), stat(1.0, 700.0), decide(1.0)];
    assert_eq!(rules(&allowed), [Some((10, DecisionRule::Stable, true))]);

    let decline = [start(&[], 0), json!({"t": 0.0, "ready": 9}), stat(1.0, 10.0), decide(1.0)];
    assert_eq!(rules(&decline), [Some((4, DecisionRule::ScaleDownRate, true))]);
    // More proxied than total load needs no pods, and no limit applies.
    let negative = [start(&[], 1), stat(1.0, -100.0), decide(1.0)];
    assert_eq!(rules(&negative), [Some((0, DecisionRule::Stable, false))]);

    let woken = [start(&[("activationScale", 3.into())], 1), stat(1.0, 70.0), decide(1.0)];
    assert_eq!(rules(&woken), [Some((3, DecisionRule::ActivationScale, true))]);

    // After a gap the panic window starts empty; the stable window counts the gap as zeros.
    let burst =
        [start(&[], 1), stat(1.0, 10.0), stat(20.0, 600.0), decide(20.0), stat(40.0, 0.0), decide(40.0)];
    assert_eq!(
        rules(&burst),
        [Some((9, DecisionRule::Panic, true)), Some((9, DecisionRule::PanicHold, true))]
    );

    let delayed = [
        start(&[("scaleDownDelaySeconds", 30.into()), ("panicThresholdPercentage", 1000.into())], 1),
        stat(1.0, 139.0),
        decide(1.0),
        stat(2.0, 1.0),
        json!({"t": 2.0, "ready": 5}),
        decide(2.0),
        json!({"t": 2.0, "ready": 1}),
        stat(20.0, 1.0),
        decide(20.0),
    ];
    assert_eq!(
        rules(&delayed),
        [
            Some((2, DecisionRule::Stable, true)),
            Some((2, DecisionRule::ScaleDownRate, true)),
            Some((2, DecisionRule::ScaleDownDelay, true))
        ]
    );
}

#[test]
fn decide_without_data_has_no_result() {
    let (_, decisions) = replay(&[first(), decide(2.0)]);
    assert_eq!((decisions[0].result, decisions[0].has_data, decisions[0].panicking), (None, false, true));
    assert_eq!(decisions[0].calm, Some(Duration::from_secs(2)));
    let silence = json!({"t": 0.0, "spec": spec(&[("targetBurstCapacity", json!(-1.0))]), "ready": 0});
    let (_, decisions) = replay(&[silence, decide(2.0)]);
    assert!(
        decisions[0].result.is_some() && !decisions[0].has_data,
        "no data counts as zero, and has_data is false"
    );
}

#[test]
fn decisions_serialize_like_the_recordings() {
    let (_, decisions) = replay(&[first(), decide(0.5), stat(1.0, 0.1), decide(2.0)]);
    let answers: Vec<_> =
        decisions.iter().map(|o| serde_json::to_string(&TraceDecision::from(o)).unwrap()).collect();
    assert_eq!(
        answers,
        [
            r#"{"t":0.5,"valid":false,"panicking":true}"#,
            r#"{"t":2.0,"valid":true,"desired":2,"excessBurstCapacity":-12,"panicking":true,"stable":0.1,"panic":0.1}"#,
        ]
    );
}

#[test]
fn rejects_time_that_goes_back_or_is_not_whole_milliseconds() {
    for (t, error) in [
        (-1.0, "t is -1.0, but must be seconds from 0 to 1e9"),
        (1e300, "t is 1e300, but must be seconds from 0 to 1e9"),
        (2.0005, "t is 2.0005, but must be whole milliseconds"),
        (1.999, "t is 1.999, but must be at least 2.0, the time of the previous line"),
    ] {
        assert_eq!(rejection(&[first(), decide(2.0), decide(t)]), error);
    }
    // Accepted: rounding errors of float sums, a negative zero, and the same time twice.
    replay(&[first(), decide(0.1 + 0.2), decide(0.3)]);
    replay(&[json!({"t": -0.0, "spec": spec(&[]), "ready": 2.0}), decide(0.0)]);
}

#[test]
fn rejects_line_with_no_kind_several_kinds_or_wrong_order() {
    let start = "the first line must have t, spec and ready";
    for line in [decide(0.0), json!({"t": 0.0, "ready": 1}), json!({"t": 0.0, "spec": spec(&[])})] {
        assert_eq!(rejection(&[line]), start);
    }
    let one = "but must have exactly one of spec, stat, ready and decide besides t";
    for (line, error) in [
        (json!({"t": 1.0}), format!("the line has nothing, {one}")),
        (json!({"t": 1.0, "ready": 1, "decide": true}), format!("the line has ready and decide, {one}")),
        (json!({"t": 1.0, "decide": false}), "decide is false, but must be true or absent".to_owned()),
        (first(), "only the first line may have both spec and ready; put them into two lines".to_owned()),
    ] {
        assert_eq!(rejection(&[first(), line]), error);
    }
}

#[test]
fn rejects_values_out_of_bounds() {
    for (field, bad, bound) in [
        ("target", [0.0, -1.0], "above 0"),
        ("totalTarget", [0.0, -1.0], "above 0"),
        ("targetBurstCapacity", [-0.5, -2.0], "0 or more, or -1"),
        ("stableWindowSeconds", [0.0, 86_401.0], "whole seconds from 1 to 86400"),
        ("stableWindowSeconds", [1.5, -60.0], "whole seconds from 1 to 86400"),
        ("panicWindowPercentage", [0.0, 100.1], "above 0, at most 100"),
        ("panicThresholdPercentage", [0.0, -1.0], "above 0"),
        ("maxScaleUpRate", [1.0, 0.0], "above 1"),
        ("maxScaleDownRate", [1.0, -1.0], "above 1"),
        ("scaleDownDelaySeconds", [-1.0, 1e18], "whole seconds from 0 to 86400"),
        ("activationScale", [0.0, 2.5], "whole pods from 1 (not set) to 2147483647"),
    ] {
        for value in bad {
            assert_eq!(
                spec_rejection(field, value),
                format!("spec.{field} is {value:?}, but must be {bound}")
            );
        }
    }
    for pods in [-1.0, 0.5, 2_147_483_648.0] {
        let error = rejection(&[first(), json!({"t": 1.0, "ready": pods})]);
        assert_eq!(error, format!("ready is {pods:?}, but must be whole pods from 0 to 2147483647"));
    }
}

#[test]
fn rejects_values_too_large_for_a_window() {
    let error = rejection(&[first(), stat(1.0, f64::MAX)]);
    assert_eq!(error, format!("stat.concurrency is {:?}, but must be a number from -5e99 to 5e99", f64::MAX));
}

#[test]
fn rejects_change_of_metric_or_aggregation_within_a_trace() {
    for (field, value) in [("metric", "rps"), ("aggregation", "weighted")] {
        let changed = json!({"t": 1.0, "spec": spec(&[(field, value.into())])});
        let error = rejection(&[first(), changed]);
        assert_eq!(
            error,
            format!("spec.{field} differs from the first line; it must not change within a trace")
        );
    }
    replay(&[first(), json!({"t": 1.0, "spec": spec(&[("target", 7.0.into())])})]);
}

#[test]
fn rejected_line_leaves_replay_unchanged() {
    let lines = [first(), stat(1.0, 500.0)];
    let (mut rejecting, _) = replay(&lines);
    let longer = spec(&[("stableWindowSeconds", 600.into()), ("target", 0.0.into())]);
    for bad in [json!({"t": 9.0, "spec": longer}), json!({"t": 9.0, "ready": -1}), json!({"t": 9.0})] {
        rejecting.take(parsed(&bad)).unwrap_err();
    }
    let decision = rejecting.take(parsed(&decide(2.0))).unwrap();
    assert_eq!(decision, replay(&lines).0.take(parsed(&decide(2.0))).unwrap());
}

#[test]
fn rejects_lines_that_violate_the_format() {
    for (line, error) in [
        (r#"{"decide":true}"#, "missing field `t`"),
        (
            r#"{"t":1,"decides":true}"#,
            "unknown field `decides`, expected one of `t`, `spec`, `ready`, `stat`, `decide`",
        ),
        (r#"{"t":1,"t":2,"decide":true}"#, "duplicate field `t`"),
        (r#"{"t":1,"ready":"2"}"#, "invalid type: string \"2\", expected f64"),
        (r#"{"t":1,"ready":null}"#, "invalid type: null, expected f64"),
        (r#"{"t":1,"spec":null}"#, "invalid type: null, expected an object"),
        (r#"{"t":1,"spec":{"metric":"cpu"}}"#, "unknown variant `cpu`, expected one of `concurrency`"),
        (r#"{"t":1,"stat":{"concurrency":1.0}}"#, "missing field `proxiedConcurrency`"),
        (r#"{"t":1,"stat":["a",1,2,3,4]}"#, "invalid type: sequence, expected an object"),
        (r#"[1]"#, "invalid type: sequence, expected an object"),
        (r#"{"t":1e999,"decide":true}"#, "number out of range"),
    ] {
        let got = parse_error(line);
        assert!(got.starts_with(error), "{line}: {got}");
    }
    // The pod has no effect, so it is optional.
    let without_pod = json!({"t": 1.0, "stat": {
        "concurrency": 1.0, "proxiedConcurrency": 0.0, "requestCount": 1.0, "proxiedRequestCount": 0.0
    }});
    replay(&[first(), without_pod]);
}
