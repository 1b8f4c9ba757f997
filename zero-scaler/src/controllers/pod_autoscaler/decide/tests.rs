//! One test for each situation: the plan. What keeps activators in the path is in `route`, the
//! statuses that follow are in `statuses`.

mod route;
mod statuses;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::api::{LearningStatus, PodAutoscaler, SavingsStatus, ServerlessService, StartFailure};
use autoscaler::findings::sidecar::Sidecar;
use autoscaler::findings::{Problem, SidecarConflict};
use autoscaler::learning_report::{LearningReport, Phase};
use autoscaler::scaling::pod_start::StartCause;
use autoscaler::settings::{AutoscalerConfig, LearnTarget, NoWakeRules, Settings, SidecarMode};
use autoscaler::{Decision, Key, Protocol};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::activators::path_verification::PathError;
use crate::cache::cached_target::footprint::PodFootprint;
use crate::controllers::pod_autoscaler::scale_write::ScaleWriteResult;
use crate::controllers::pod_autoscaler::{degraded, status};
use crate::kubernetes::reasons::Reason;

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
        held: false,
        excess_burst_capacity: 0,
        stable: 0.0,
        panic: 0.0,
        ready: 1,
        idle_since: idle_for.map(|seconds| (NOW - seconds) * 1000),
        decided_at: NOW * 1000,
        learning: None,
        hpa_lag: None,
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

fn settings(autoscaler: &PodAutoscaler) -> Settings {
    let config = AutoscalerConfig::default();
    let (settings, errors) = autoscaler.spec.settings(&config, autoscaler.annotations());
    assert_eq!(errors, []);
    settings
}

/// Edits the spec or the annotations.
fn edited(mut observed: ObservedWorkload, edit: impl FnOnce(&mut PodAutoscaler)) -> ObservedWorkload {
    edit(&mut observed.autoscaler);
    observed.settings = settings(&observed.autoscaler);
    observed.scheduled = observed.settings.apply_schedule(NOW * 1000);
    observed
}

fn annotate(autoscaler: &mut PodAutoscaler, key: &str, value: &str) {
    autoscaler.annotations_mut().insert(format!("autoscaling.rouse.dev/{key}"), value.to_owned());
}

/// A workload without HPA, with 1 to 5 pods unless edited.
fn direct(observed: ObservedWorkload) -> ObservedWorkload {
    edited(observed, |autoscaler| autoscaler.spec.scaler = Scaler::Direct)
}

/// An active workload with bounds 1 and 5 that serves one request.
fn observed(replicas: i32, conditions: &[Value]) -> ObservedWorkload {
    let autoscaler: PodAutoscaler = serde_json::from_value(json!({
        "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "generation": 1},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "service": "web", "target": "70", "minReplicas": 1, "maxReplicas": 5, "scaleToZero": true},
        "status": {"replicas": replicas, "conditions": conditions},
    }))
    .unwrap();
    let settings = settings(&autoscaler);
    ObservedWorkload {
        key: Key::new("shop", "web"),
        autoscaler,
        settings,
        scheduled: None,
        bad_settings: Vec::new(),
        scale: Ok(Scale {
            replicas,
            selector: "app=web".into(),
            resource_version: "7".into(),
            writer: Writer::Unknown,
        }),
        watched: true,
        decision: Some(decision(1, None)),
        decision_received: Some(NOW * 1000),
        learning_workloads: 1,
        sidecar: None,
        pod_limit: None,
        footprint: PodFootprint::default(),
        next_pods: Default::default(),
        wake_check: Some(Ok(())),
        target_annotations: Vec::new(),
        sidecar_mode: SidecarMode::Required,
        last_requested: None,
        seen: zero::SeenFor::ALWAYS,
        ready: u32::try_from(replicas).unwrap(),
        service: None,
        metric: None,
        rival: None,
        target_owner: None,
        start_failure: None,
        pods_on_unresponsive_nodes: 0,
        unusable_pod: None,
        serverless_service: Some(sks("Serve", None)),
        hpa: None,
        silent_activators: None,
        metric_failure: None,
        without_activators: None,
        now: jiff::Timestamp::from_second(NOW).unwrap(),
    }
}

fn active() -> ObservedWorkload {
    observed(1, &[at("Active", "True", "PodsReady", 600)])
}

/// Idle for ten minutes; inactive and in Proxy mode for one minute.
fn going() -> ObservedWorkload {
    ObservedWorkload {
        decision: Some(decision(0, Some(600))),
        serverless_service: Some(sks("Proxy", Some(60))),
        ..observed(
            1,
            &[at("Active", "False", "NoTraffic", 60), at("ActivatorInPath", "True", "Verified", 50)],
        )
    }
}

fn at_zero() -> ObservedWorkload {
    ObservedWorkload {
        ready: 0,
        ..ObservedWorkload {
            scale: scale(0, Writer::Us),
            ..observed(0, &[at("Active", "False", "NoTraffic", 60)])
        }
    }
}

fn scale(replicas: i32, writer: Writer) -> Result<Scale, crate::scaling::scale_targets::ScaleError> {
    Ok(Scale { replicas, selector: "app=web".into(), resource_version: "7".into(), writer })
}

fn initialized() -> Value {
    at("ScaleTargetInitialized", "True", "PodsWereReady", 600)
}

fn write(to: i32, cause: WriteCause) -> Option<SizeToWrite> {
    Some(SizeToWrite { to, cause })
}

/// The report of a learned target for a user's target of 70.
fn learned(mode: LearnTarget, target: f64) -> Option<Box<LearningReport>> {
    Some(Box::new(LearningReport {
        mode,
        user_target: 70.0,
        target,
        backlog: 1.0,
        temporary_limit: None,
        long_requests: false,
        phase: Phase::Settled,
        confidence: 1.0,
        evidence: String::new(),
        pods_with_user_target: 1,
        pods_with_target: 1,
        changes: 1,
        reverts: 0,
        checkpoint: None,
    }))
}

/// A workload of pods without a sidecar, with a status of the ServerlessService.
fn without_sidecar(observed: ObservedWorkload) -> ObservedWorkload {
    let mut observed = edited(observed, |autoscaler| annotate(autoscaler, "sidecar", "false"));
    observed.sidecar_mode = SidecarMode::None;
    observed
}

#[test]
fn writes_no_size_for_busy_workload_with_hpa() {
    let plan = decide(&active(), None);
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (ActivePhase::Active, None, SksMode::Serve));
    let mut overloaded = active();
    overloaded.decision.as_mut().unwrap().excess_burst_capacity = -1;
    assert_eq!(decide(&overloaded, None).mode, SksMode::Proxy);
}

#[test]
fn becomes_inactive_then_probes_path_then_writes_zero() {
    let idle = ObservedWorkload { decision: Some(decision(0, Some(600))), ..active() };
    let plan = decide(&idle, None);
    assert_eq!((plan.activation.phase, plan.mode, plan.write), (ActivePhase::Inactive, SksMode::Proxy, None));

    let plan = decide(&going(), None);
    assert!(plan.probe);
    assert_eq!(plan.write, None);
    assert_eq!(decide(&going(), Some(true)).write, write(0, WriteCause::Idle));
    let refused = decide(&going(), Some(false));
    assert_eq!(
        (refused.write, refused.recheck, refused.mode),
        (None, Some(Duration::from_secs(1)), SksMode::Proxy)
    );
}

#[test]
fn request_of_decision_or_activator_stops_scale_to_zero() {
    let decided = ObservedWorkload { decision: Some(decision(1, None)), ..going() };
    let poked = ObservedWorkload { last_requested: Some(NOW * 1000 - 10), ..going() };
    for observed in [decided, poked] {
        let plan = decide(&observed, Some(true));
        assert_eq!((plan.activation.phase, plan.write, plan.probe), (ActivePhase::Active, None, false));
    }
}

#[test]
fn late_report_of_last_request_does_not_stop_scale_to_zero() {
    // The activator's last report arrived two seconds after the first idle second of the adapter.
    let late = ObservedWorkload { last_requested: Some((NOW - 598) * 1000), ..going() };
    assert_eq!(decide(&late, Some(true)).write, write(0, WriteCause::Idle));
}

/// A stalled zero-scaler, or one whose clock is ahead of the adapter's, receives the report of the
/// last request long after idleness began. No later request would correct that.
#[test]
fn request_covered_by_newer_decision_does_not_block_scale_to_zero() {
    let late = |received| ObservedWorkload {
        last_requested: Some((NOW - 300) * 1000),
        decision_received: Some((NOW - received) * 1000),
        decision: Some(decision(0, Some(310))),
        ..active()
    };
    let plan = decide(&late(299), None);
    assert_eq!((plan.activation.phase, plan.why), (ActivePhase::Active, Some(StayReason::Requests)));
    assert_eq!(plan.recheck, Some(Duration::from_secs(5)), "a repeated decision triggers no reconcile");
    assert_eq!(decide(&late(290), None).activation.phase, ActivePhase::Inactive);
}

#[test]
fn without_decision_keeps_phase_and_size() {
    let plan = decide(&ObservedWorkload { decision: None, ..going() }, Some(true));
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (ActivePhase::Inactive, None, SksMode::Proxy));
    let plan = decide(&ObservedWorkload { decision: None, ..active() }, None);
    assert_eq!((plan.activation.phase, plan.write, plan.mode), (ActivePhase::Active, None, SksMode::Serve));
}

#[test]
fn workload_that_left_zero_is_activating_despite_idle_decision() {
    // The wake wrote 1; the status still has 0, and the decision is older than the request.
    let mut left_zero =
        ObservedWorkload { scale: scale(1, Writer::Us), decision: Some(decision(0, Some(600))), ..at_zero() };
    left_zero.serverless_service = Some(sks("Proxy", Some(600)));
    let plan = decide(&left_zero, None);
    assert_eq!((plan.activation.phase, plan.write, plan.probe), (ActivePhase::Activating, None, false));
    assert_eq!(plan.mode, SksMode::Proxy);
}

#[test]
fn beside_another_autoscaler_writes_only_from_and_to_zero() {
    let other = |observed| edited(observed, |autoscaler| autoscaler.spec.scaler = Scaler::Other);
    let panicking = Decision { panicking: true, ..decision(4, None) };
    let above_zero = ObservedWorkload { decision: Some(panicking), ..active() };
    assert_eq!(decide(&other(above_zero), None).write, None);
    let wanted = ObservedWorkload { decision: Some(decision(4, None)), ..at_zero() };
    assert_eq!(decide(&other(wanted), None).write, write(1, WriteCause::Wanted));
    assert_eq!(decide(&other(going()), Some(true)).write, write(0, WriteCause::Idle));
}

#[test]
fn wakes_to_desired_size_within_bounds() {
    assert_eq!(
        decide(&ObservedWorkload { decision: Some(decision(0, Some(600))), ..at_zero() }, None).write,
        None
    );
    let wanted = ObservedWorkload { decision: Some(decision(4, None)), ..at_zero() };
    let plan = decide(&wanted, None);
    assert_eq!((plan.write, plan.activation.phase), (write(4, WriteCause::Wanted), ActivePhase::Activating));
    let more = ObservedWorkload { decision: Some(decision(40, None)), ..at_zero() };
    assert_eq!(decide(&more, None).write, write(5, WriteCause::Wanted));
}

#[test]
fn wakes_workload_at_zero_after_10_seconds_without_activators() {
    let idle = || ObservedWorkload { decision: None, ..at_zero() };
    let plan = decide(&ObservedWorkload { without_activators: Some(Duration::from_secs(4)), ..idle() }, None);
    assert_eq!((plan.write, plan.recheck), (None, Some(Duration::from_secs(6))));
    let plan =
        decide(&ObservedWorkload { without_activators: Some(Duration::from_secs(10)), ..idle() }, None);
    assert_eq!(plan.write, write(1, WriteCause::NoActivator));
}

#[test]
fn panic_writes_only_larger_sizes_ahead_of_hpa() {
    let panicking = |desired| {
        let decision = Decision { panicking: true, ..decision(desired, None) };
        ObservedWorkload {
            decision: Some(decision),
            ..observed(2, &[at("Active", "True", "PodsReady", 600)])
        }
    };
    assert_eq!(decide(&panicking(4), None).write, write(4, WriteCause::Panic));
    assert_eq!(decide(&panicking(50), None).write, write(5, WriteCause::Panic));
    assert_eq!(decide(&panicking(2), None).write, None);
    assert_eq!(decide(&panicking(1), None).write, None);
}

#[test]
fn without_hpa_writes_every_size_within_bounds() {
    let written = |decided: Option<u32>, replicas| {
        let mut observed =
            direct(observed(replicas, &[at("Active", "True", "PodsReady", 600), initialized()]));
        observed = edited(observed, |autoscaler| autoscaler.spec.min_replicas = Some(2));
        observed.decision = decided.map(|d| decision(d, None));
        decide(&observed, None).write
    };
    assert_eq!(written(Some(4), 2), write(4, WriteCause::Direct));
    assert_eq!(written(Some(1), 4), write(2, WriteCause::Direct));
    assert_eq!(written(Some(3), 3), None);
    assert_eq!(written(None, 3), None);
    assert_eq!(written(None, 9), write(5, WriteCause::Direct));
}

#[test]
fn number_of_activators_follows_the_target_in_force() {
    use LearnTarget::{Apply, Recommend};
    let activators = |setting: &str, limit, report: Option<Box<LearningReport>>| {
        let observed = ObservedWorkload {
            decision: Some(Decision { learning: report, ..decision(8, None) }),
            ..observed(8, &[])
        };
        let observed = edited(observed, |autoscaler| {
            annotate(autoscaler, "learn-target", setting);
            autoscaler.spec.container_concurrency = limit;
        });
        decide(&observed, None).activators
    };
    // Of 100 requests each: eight pods of 100, or of 400, and a burst of 211.
    assert_eq!(activators("Apply", 0, None), 11, "without a report");
    assert_eq!(activators("Apply", 0, learned(Apply, 280.0)), 35);
    assert_eq!(activators("Apply", 120, learned(Apply, 280.0)), 12, "the container concurrency");
    assert_eq!(activators("Recommend", 0, learned(Recommend, 280.0)), 11);
    assert_eq!(activators("Apply", 0, learned(Recommend, 280.0)), 11, "of the former mode");
    assert_eq!(activators("Off", 0, learned(Apply, 280.0)), 11);
    for unusable in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(activators("Apply", 0, learned(Apply, unusable)), 11, "{unusable}");
    }
}

#[test]
fn number_of_activators_without_decision_follows_the_status() {
    let workload = edited(ObservedWorkload { decision: None, ..observed(8, &[]) }, |autoscaler| {
        annotate(autoscaler, "learn-target", "Apply");
        let status = LearningStatus {
            mode: LearnTarget::Apply,
            recommended_target: Some("280".to_owned()),
            ..LearningStatus::default()
        };
        autoscaler.status.as_mut().unwrap().learning = Some(status);
    });
    assert_eq!(decide(&workload, None).activators, 35);
    assert_eq!(
        decide(&ObservedWorkload { decision: Some(decision(8, None)), ..workload }, None).activators,
        11
    );
}

#[test]
fn number_of_activators_follows_the_limit_of_the_pod_template() {
    let activators = |limit, pod_limit| {
        let observed = edited(observed(8, &[]), |autoscaler| autoscaler.spec.container_concurrency = limit);
        decide(&ObservedWorkload { pod_limit, ..observed }, None).activators
    };
    // Of 100 requests each: eight pods, and a burst of 211.
    assert_eq!(activators(0, Some(500)), 43);
    assert_eq!(activators(120, Some(500)), 12, "that of the HPA");
    assert_eq!(activators(0, None), 11);
}

/// A sidecar with these `no-wake` rules, if any.
fn configured(protocol: Protocol, container_concurrency: u32, no_wake: &str) -> Sidecar {
    let no_wake = no_wake.parse().unwrap_or_default();
    Sidecar::Configured { protocol, container_concurrency, no_wake, port: 8012, conflict: None }
}

#[test]
fn pods_without_sidecar_stay_behind_activators() {
    let spare = Decision { excess_burst_capacity: 100, ..decision(1, None) };
    let active = || ObservedWorkload { decision: Some(spare.clone()), ..active() };
    assert_eq!(decide(&active(), None).mode, SksMode::Serve);
    assert_eq!(decide(&without_sidecar(active()), None).mode, SksMode::Proxy);
    let undecided = ObservedWorkload { decision: None, ..without_sidecar(active()) };
    assert_eq!(decide(&undecided, None).mode, SksMode::Proxy);
}

#[test]
fn requests_past_activators_to_pods_without_sidecar_are_uncounted() {
    let proxied = ObservedWorkload { serverless_service: Some(sks("Proxy", Some(60))), ..active() };
    for (observed, uncounted) in
        [(active(), false), (without_sidecar(active()), true), (without_sidecar(proxied), false)]
    {
        assert_eq!(observed.is_uncounted(), uncounted);
    }
    let idle = ObservedWorkload { decision: Some(decision(0, Some(600))), ..at_zero() };
    let mut selected = without_sidecar(idle);
    let mut sks = sks("Proxy", None);
    let status = sks.status.as_mut().unwrap();
    (status.mode, status.conditions) =
        (None, vec![serde_json::from_value(at("Ready", "False", "ServiceHasSelector", 0)).unwrap()]);
    selected.serverless_service = Some(sks);
    assert!(selected.is_uncounted());
    assert_eq!(
        decide(&selected, None).write,
        write(1, WriteCause::NoActivator),
        "no activator holds requests"
    );
}

#[test]
fn writes_sizes_within_the_bounds_of_the_spec() {
    let written = |min: Option<i32>, max: Option<i32>, desired, replicas| {
        let observed = observed(replicas, &[at("Active", "True", "PodsReady", 600), initialized()]);
        let mut observed = edited(direct(observed), |autoscaler| {
            (autoscaler.spec.min_replicas, autoscaler.spec.max_replicas) = (min, max);
        });
        observed.decision = Some(decision(desired, None));
        decide(&observed, None).write
    };
    // Z24
    assert_eq!(written(None, Some(8), 10, 1), write(8, WriteCause::Direct));
    assert_eq!(written(None, None, 5000, 1), write(5000, WriteCause::Direct));
    assert_eq!(written(Some(3), None, 1, 5), write(3, WriteCause::Direct));
    assert_eq!(written(None, None, 0, 5), write(1, WriteCause::Direct));
}

/// Rows of Knative's scaler_test.go that end in a size.
#[test]
fn scales_new_workload_to_initial_size() {
    let new = |initial: &str, replicas, decided: Option<u32>| {
        let mut observed = edited(direct(observed(replicas, &[at("Active", "Unknown", "Queued", 0)])), |a| {
            annotate(a, "initial-scale", initial);
        });
        observed.decision = decided.map(|d| decision(d, None));
        observed
    };
    // Z27; the target still has the size of its manifest.
    assert_eq!(decide(&new("2", 0, Some(1)), None).write, write(2, WriteCause::Wanted));
    assert_eq!(decide(&new("2", 1, Some(1)), None).write, write(2, WriteCause::Direct));
    // Z28, and then it is active and initialized.
    let plan = decide(&new("5", 5, Some(1)), None);
    assert_eq!((plan.write, plan.activation.phase), (None, ActivePhase::Active));
    let four = ObservedWorkload { ready: 4, ..new("5", 5, Some(1)) };
    assert_eq!(decide(&four, None).activation.phase, ActivePhase::Activating);
    // Without a decision the initial size still holds.
    assert_eq!(decide(&new("5", 1, None), None).write, write(5, WriteCause::Direct));
    // Z29: initialized, so the initial size no longer holds.
    let idle = |observed| ObservedWorkload { decision: Some(decision(0, Some(600))), ..observed };
    let mut attained = idle(direct(observed(2, &[at("Active", "True", "PodsReady", 120), initialized()])));
    attained = edited(attained, |a| annotate(a, "initial-scale", "2"));
    assert_eq!(decide(&attained, None).write, write(1, WriteCause::Direct));
    // Z30: not initialized, but unreachable.
    let mut retired = idle(direct(observed(2, &[at("Active", "True", "PodsReady", 30)])));
    retired = edited(retired, |a| {
        annotate(a, "initial-scale", "2");
        annotate(a, "reachability", "Unreachable");
    });
    assert_eq!(decide(&retired, None).write, write(1, WriteCause::Direct));
}

#[test]
fn initial_scale_with_hpa_applies_only_to_wakes() {
    let new = |replicas| {
        let observed = observed(replicas, &[at("Active", "Unknown", "Queued", 0)]);
        edited(observed, |a| annotate(a, "initial-scale", "3"))
    };
    let plan = decide(&new(1), None);
    assert_eq!((plan.write, plan.activation.phase), (None, ActivePhase::Active));
    assert_eq!(decide(&new(0), None).write, write(3, WriteCause::Wanted));
}

#[test]
fn gives_up_pods_after_progress_deadline() {
    let stuck = |seconds| ObservedWorkload {
        decision: Some(decision(0, Some(900))),
        ready: 0,
        serverless_service: Some(sks("Proxy", Some(900))),
        ..observed(1, &[at("Active", "Unknown", "Queued", seconds)])
    };
    // Z17
    let plan = decide(&stuck(400), None);
    assert_eq!(
        (plan.activation.phase, plan.recheck),
        (ActivePhase::Activating, Some(Duration::from_secs(230)))
    );
    // Z18
    let plan = decide(&stuck(631), None);
    assert_eq!(
        (plan.activation.phase, plan.activation.reason),
        (ActivePhase::Inactive, ActiveReason::TimedOut)
    );
    assert_eq!((plan.write, plan.mode), (None, SksMode::Proxy));
}

#[test]
fn checks_what_comes_back_before_the_sequence_and_before_zero() {
    let idle = || ObservedWorkload { decision: Some(decision(0, Some(600))), ..active() };
    let unchecked = |observed| decide(&ObservedWorkload { wake_check: None, ..observed }, Some(true));
    for (observed, phase) in [(idle(), ActivePhase::Inactive), (going(), ActivePhase::Inactive)] {
        let plan = unchecked(observed);
        assert_eq!((plan.check, plan.write, plan.activation.phase), (true, None, phase));
    }
    assert_eq!(decide(&going(), Some(true)).write, write(0, WriteCause::Idle));
}

#[test]
fn blocked_workload_stays_above_zero_and_reports_the_cause() {
    let problem =
        || Problem::with_usual_fix(Reason::RolloutIncomplete, "1 of 2 pods have the newest template");
    let blocked = |observed| ObservedWorkload { wake_check: Some(Err(problem())), ..observed };
    let idle = ObservedWorkload { decision: Some(decision(0, Some(600))), ..active() };
    for observed in [blocked(idle), blocked(going())] {
        let plan = decide(&observed, Some(true));
        assert_eq!((plan.write, plan.check, plan.why), (None, false, Some(StayReason::WakeBlocked)));
        assert_eq!(plan.activation.phase, ActivePhase::Active);
        let status = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
        assert_eq!(status.reason.as_deref(), Some("RolloutIncomplete"));
        assert!(status.message.unwrap().contains("1 of 2 pods"), "the cause");
        let active = status.conditions.iter().find(|condition| condition.type_ == "Active").unwrap();
        assert!(active.message.contains("1 of 2 pods"), "{}", active.message);
    }
    let busy = decide(&blocked(active()), None);
    assert_eq!(busy.why, Some(StayReason::Requests));
}

#[test]
fn refused_object_is_the_reason_why_the_workload_is_not_ready() {
    let before = at("Ready", "False", "WriteRefused", 60);
    let observed = observed(1, &[at("Active", "True", "PodsReady", 600), before]);
    let plan = decide(&observed, None);
    let status = status::status(&observed, &plan, &Ok(ScaleWriteResult::NotNeeded), None);
    let refused = status::refused(&observed, status, "metrics \"web\" is forbidden: exceeded quota: small");
    assert_eq!(refused.reason.as_deref(), Some("WriteRefused"));
    let ready = refused.conditions.iter().find(|condition| condition.type_ == "Ready").unwrap();
    assert!(ready.status == "False" && ready.message.contains("exceeded quota: small"), "{}", ready.message);
    assert_eq!(
        ready.last_transition_time.0.as_second(),
        NOW - 60,
        "an unchanged condition is not written again"
    );
}

#[test]
fn metric_that_the_hpa_cannot_read_is_the_reason_of_its_workload() {
    let failure = Problem::with_usual_fix(Reason::FailedGetResourceMetric, "no metrics for cpu");
    let observed = ObservedWorkload {
        decision: Some(decision(0, Some(600))),
        metric_failure: Some(Ok(failure)),
        ..observed(2, &[at("Active", "True", "PodsReady", 600)])
    };
    let status = status::status(&observed, &decide(&observed, None), &Ok(ScaleWriteResult::NotNeeded), None);
    assert_eq!(status.reason.as_deref(), Some("FailedGetResourceMetric"));
}

#[test]
fn adds_a_pod_while_all_pods_are_on_unresponsive_nodes() {
    let lost = |replicas, pods| ObservedWorkload {
        ready: 0,
        pods_on_unresponsive_nodes: pods,
        ..observed(replicas, &[at("Active", "Unknown", "Queued", 60)])
    };
    let written = |observed: ObservedWorkload| decide(&observed, None).write;
    assert_eq!(written(lost(1, 1)), write(2, WriteCause::UnresponsiveNode));
    assert_eq!(written(lost(2, 1)), None, "the pods of this size were not seen yet");
    assert_eq!(written(lost(2, 2)), write(3, WriteCause::UnresponsiveNode));
    assert_eq!(written(lost(5, 5)), None, "maxReplicas");
    assert_eq!(written(edited(lost(1, 1), |a| a.spec.scaler = Scaler::Other)), None);
    assert_eq!(written(direct(lost(1, 1))), write(2, WriteCause::UnresponsiveNode));
    assert_eq!(written(direct(lost(2, 0))), None, "one of the two is starting");
    assert_eq!(written(ObservedWorkload { ready: 1, ..direct(lost(2, 0)) }), write(1, WriteCause::Direct));
}

#[test]
fn causes_of_writes_are_label_values_in_snake_case() {
    let causes = [
        WriteCause::Idle,
        WriteCause::Wanted,
        WriteCause::NotAllowed,
        WriteCause::NoActivator,
        WriteCause::Panic,
        WriteCause::Direct,
    ];
    let is_snake_case = |value: &str| value.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    assert!(causes.iter().all(|cause| is_snake_case(cause.as_str())), "{causes:?}");
}
