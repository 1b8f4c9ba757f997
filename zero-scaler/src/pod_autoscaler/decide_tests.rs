//! Whole plans: what is written, and what people read, for one situation each.

use std::time::Duration;

use autoscaler::api::{PodAutoscaler, ServerlessService};
use autoscaler::config::AutoscalerConfig;
use autoscaler::settings::Settings;
use autoscaler::{Decision, Key};
use serde_json::{Value, json};

use super::*;
use crate::pod_autoscaler::apply::Written;
use crate::pod_autoscaler::status;

const NOW: i64 = 1_800_000_000;

fn ago(seconds: i64) -> String {
    jiff::Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

fn at(r#type: &str, status: &str, reason: &str, seconds: i64) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": "", "lastTransitionTime": ago(seconds)})
}

fn decision(desired: u32, idle_for: Option<i64>) -> Decision {
    Decision {
        key: Key::new("shop", "web"),
        desired,
        panicking: false,
        excess_burst_capacity: 0,
        stable: 0.0,
        panic: 0.0,
        ready: 1,
        idle_since: idle_for.map(|seconds| (NOW - seconds) * 1000),
        decided_at: NOW * 1000,
    }
}

fn sks(mode: &str, proxied_for: Option<i64>) -> ServerlessService {
    let populated = match proxied_for {
        Some(seconds) => at("ActivatorEndpointsPopulated", "True", "Proxied", seconds),
        None => at("ActivatorEndpointsPopulated", "False", "Serving", 0),
    };
    serde_json::from_value(json!({
        "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"service": "web", "selector": "app=web", "mode": mode, "numActivators": 2},
        "status": {"mode": mode, "activators": 2, "conditions": [populated, at("Ready", "True", "Populated", 0)]},
    }))
    .unwrap()
}

/// An active workload at its minimum of 1, of at most 5, serving one request.
fn observed(replicas: i32, conditions: &[Value]) -> Observed {
    let autoscaler: PodAutoscaler = serde_json::from_value(json!({
        "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "service": "web", "target": "70", "minReplicas": 1, "maxReplicas": 5, "scaleToZero": true},
        "status": {"replicas": replicas, "conditions": conditions},
    }))
    .unwrap();
    let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
    Observed {
        key: Key::new("shop", "web"),
        autoscaler,
        settings,
        bad_settings: Vec::new(),
        scale: Ok(Scale {
            replicas,
            selector: "app=web".into(),
            resource_version: "7".into(),
            writer: Writer::Unknown,
        }),
        watched: true,
        decision: Some(decision(1, None)),
        last_asked: None,
        ready: u32::try_from(replicas).unwrap(),
        service: None,
        metric: None,
        serverless_service: Some(sks("Serve", None)),
        hpa: None,
        without_activators: None,
        now: jiff::Timestamp::from_second(NOW).unwrap(),
    }
}

fn active() -> Observed {
    observed(1, &[at("Active", "True", "PodsReady", 600)])
}

/// Idle for ten minutes, inactive and in Proxy for one.
fn going() -> Observed {
    Observed {
        decision: Some(decision(0, Some(600))),
        serverless_service: Some(sks("Proxy", Some(60))),
        ..observed(1, &[at("Active", "False", "NoTraffic", 60), at("ActivatorInPath", "True", "Proven", 50)])
    }
}

fn asleep() -> Observed {
    Observed {
        ready: 0,
        ..Observed { scale: scale(0, Writer::Us), ..observed(0, &[at("Active", "False", "NoTraffic", 60)]) }
    }
}

fn scale(replicas: i32, writer: Writer) -> Result<Scale, crate::scale_target::ScaleError> {
    Ok(Scale { replicas, selector: "app=web".into(), resource_version: "7".into(), writer })
}

fn write(to: i32, cause: Cause) -> Option<Write> {
    Some(Write { to, cause })
}

#[test]
fn a_busy_workload_is_left_to_the_hpa() {
    let plan = decide(&active(), None);
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (Phase::Active, None, SksMode::Serve));
    let mut short = active();
    short.decision.as_mut().unwrap().excess_burst_capacity = -1;
    assert_eq!(decide(&short, None).mode, SksMode::Proxy);
}

#[test]
fn the_way_to_zero_is_inactive_then_proven_then_written() {
    let idle = Observed { decision: Some(decision(0, Some(600))), ..active() };
    let plan = decide(&idle, None);
    assert_eq!((plan.activation.phase, plan.mode, plan.write), (Phase::Inactive, SksMode::Proxy, None));

    let plan = decide(&going(), None);
    assert!(plan.probe);
    assert_eq!(plan.write, None);
    assert_eq!(decide(&going(), Some(true)).write, write(0, Cause::Idle));
    let refused = decide(&going(), Some(false));
    assert_eq!(
        (refused.write, refused.recheck, refused.mode),
        (None, Some(Duration::from_secs(1)), SksMode::Proxy)
    );
}

#[test]
fn a_request_stops_it_whoever_speaks_of_it() {
    let decided = Observed { decision: Some(decision(1, None)), ..going() };
    let poked = Observed { last_asked: Some(NOW * 1000 - 10), ..going() };
    for observed in [decided, poked] {
        let plan = decide(&observed, Some(true));
        assert_eq!((plan.activation.phase, plan.write, plan.probe), (Phase::Active, None, false));
    }
}

#[test]
fn the_last_request_before_idleness_does_not_stop_it() {
    // The activator's last report of it reached us two seconds after the adapter saw the first idle second.
    let late = Observed { last_asked: Some((NOW - 598) * 1000), ..going() };
    assert_eq!(decide(&late, Some(true)).write, write(0, Cause::Idle));
}

#[test]
fn silence_neither_ends_nor_goes_on() {
    let plan = decide(&Observed { decision: None, ..going() }, Some(true));
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (Phase::Inactive, None, SksMode::Proxy));
    let plan = decide(&Observed { decision: None, ..active() }, None);
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (Phase::Active, None, SksMode::Serve));
}

#[test]
fn a_workload_just_woken_starts_anew_although_the_decider_still_calls_it_idle() {
    // The wake wrote 1; the status still says 0, the decision is older than the request.
    let mut woken =
        Observed { scale: scale(1, Writer::Us), decision: Some(decision(0, Some(600))), ..asleep() };
    woken.serverless_service = Some(sks("Proxy", Some(600)));
    let plan = decide(&woken, None);
    assert_eq!((plan.activation.phase, plan.write, plan.probe), (Phase::Activating, None, false));
    assert_eq!(plan.mode, SksMode::Proxy);
}

#[test]
fn a_sleeping_workload_wakes_straight_to_what_is_decided() {
    assert_eq!(decide(&Observed { decision: Some(decision(0, Some(600))), ..asleep() }, None).write, None);
    let wanted = Observed { decision: Some(decision(4, None)), ..asleep() };
    let plan = decide(&wanted, None);
    assert_eq!((plan.write, plan.activation.phase), (write(4, Cause::Wanted), Phase::Activating));
    let more = Observed { decision: Some(decision(40, None)), ..asleep() };
    assert_eq!(decide(&more, None).write, write(5, Cause::Wanted));
}

#[test]
fn without_activators_sleeping_workloads_are_woken_after_a_while() {
    let idle = || Observed { decision: None, ..asleep() };
    let plan = decide(&Observed { without_activators: Some(Duration::from_secs(4)), ..idle() }, None);
    assert_eq!((plan.write, plan.recheck), (None, Some(Duration::from_secs(6))));
    let plan = decide(&Observed { without_activators: Some(Duration::from_secs(10)), ..idle() }, None);
    assert_eq!(plan.write, write(1, Cause::NoActivator));
}

#[test]
fn panic_goes_ahead_of_the_hpa_and_only_upwards() {
    let panicking = |desired| {
        let decision = Decision { panicking: true, ..decision(desired, None) };
        Observed { decision: Some(decision), ..observed(2, &[at("Active", "True", "PodsReady", 600)]) }
    };
    assert_eq!(decide(&panicking(4), None).write, write(4, Cause::Panic));
    assert_eq!(decide(&panicking(50), None).write, write(5, Cause::Panic));
    assert_eq!(decide(&panicking(2), None).write, None);
    assert_eq!(decide(&panicking(1), None).write, None);
}

#[test]
fn without_an_hpa_every_size_is_ours() {
    let direct = |decided: Option<u32>, replicas| {
        let mut observed = observed(replicas, &[at("Active", "True", "PodsReady", 600)]);
        observed.autoscaler.spec.scaler = Scaler::Direct;
        observed.autoscaler.spec.min_replicas = 2;
        observed.decision = decided.map(|d| decision(d, None));
        decide(&observed, None).write
    };
    assert_eq!(direct(Some(4), 2), write(4, Cause::Direct));
    assert_eq!(direct(Some(1), 4), write(2, Cause::Direct));
    assert_eq!(direct(Some(3), 3), None);
    assert_eq!(direct(None, 3), None);
    assert_eq!(direct(None, 9), write(5, Cause::Direct));
}

#[test]
fn zero_by_somebody_else_is_a_pause_and_zero_by_us_is_undone() {
    let mut observed =
        Observed { scale: scale(0, Writer::Other), ..observed(0, &[at("Active", "True", "PodsReady", 60)]) };
    observed.ready = 0;
    observed.autoscaler.spec.scale_to_zero = false;
    let plan = decide(&observed, None);
    assert!(plan.paused);
    assert_eq!((plan.write, plan.mode), (None, SksMode::Proxy));
    let status = status::status(&observed, &plan, &Ok(Written::Nothing), None);
    let says = |r#type| condition(&status.conditions, r#type).map(|c| (c.status.as_str(), c.reason.as_str()));
    assert_eq!(says("Active"), Some(("False", "Paused")));
    assert_eq!(says("Ready"), Some(("False", "Paused")));
    // It stays paused with the status that we have just written.
    observed.autoscaler.status = Some(status);
    assert!(decide(&observed, None).paused);

    let mut ours = asleep();
    ours.autoscaler.spec.scale_to_zero = false;
    assert_eq!(decide(&ours, None).write, write(1, Cause::NotAllowed));
    ours.scale = scale(0, Writer::Unknown);
    assert_eq!(decide(&ours, None).write, write(1, Cause::NotAllowed));
}

#[test]
fn a_target_that_cannot_be_read_stands_still() {
    let error = crate::scale_target::ScaleError::NotFound("Deployment web".into());
    let lost = Observed { scale: Err(error), ..going() };
    let plan = decide(&lost, None);
    assert_eq!((plan.write, plan.probe, plan.mode), (None, false, SksMode::Proxy));
    let status = status::status(&lost, &plan, &Ok(Written::Nothing), None);
    let ready = condition(&status.conditions, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "TargetNotFound"));
    assert_eq!(status.replicas, Some(1));
}

#[test]
fn a_status_is_written_once() {
    for (observed, proof) in [(active(), None), (going(), Some(Ok(()))), (asleep(), None)] {
        let plan = decide(&observed, proof.as_ref().map(|p: &Result<(), String>| p.is_ok()));
        let first = status::status(&observed, &plan, &Ok(Written::Nothing), proof.as_ref());
        let mut again = observed;
        again.autoscaler.status = Some(first.clone());
        again.now = jiff::Timestamp::from_second(NOW + 1).unwrap();
        let plan = decide(&again, proof.as_ref().map(|p| p.is_ok()));
        assert_eq!(status::status(&again, &plan, &Ok(Written::Nothing), proof.as_ref()), first);
    }
}
