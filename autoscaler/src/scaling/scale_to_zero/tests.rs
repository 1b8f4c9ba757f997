//! Golden rows of Knative's `pkg/reconciler/autoscaling/kpa/scaler_test.go`.
//!
//! Each row is named. Knative's result is (scale, written?, reconciles again?). Where Rouse
//! differs, Knative's result and the reason are beside the row. Rows about bounds alone (Z24 to
//! Z28) are in `scale_bounds`.

use super::*;
use crate::contract::GROUP;
use crate::settings::AutoscalerConfig;
use crate::settings::Reachability;

pub(super) const NOW: i64 = 10_000_000;

/// The fixture of scaler_test.go: grace 60 s, stable window 5 min, progress deadline 121 s.
pub(super) fn settings() -> Settings {
    annotated(&[("progress-deadline", "121s")])
}

fn annotated(annotations: &[(&str, &str)]) -> Settings {
    resolved(annotations, Duration::ZERO)
}

fn resolved(annotations: &[(&str, &str)], retention: Duration) -> Settings {
    let mut config = AutoscalerConfig::default();
    config.defaults.window.stable = Duration::from_secs(300);
    config.defaults.zero.grace_period = Duration::from_secs(60);
    config.defaults.zero.pod_retention = retention;
    let annotations = annotations.iter().map(|(k, v)| (format!("{GROUP}/{k}"), (*v).to_owned())).collect();
    let (settings, errors) = Settings::resolve(&config, &annotations);
    assert_eq!(errors, []);
    settings
}

pub(super) fn unreachable() -> Settings {
    edited(settings(), |s| s.zero.reachability = Reachability::Unreachable)
}

pub(super) fn edited(mut settings: Settings, edit: impl FnOnce(&mut Settings)) -> Settings {
    edit(&mut settings);
    settings
}

fn ago(seconds: i64) -> i64 {
    NOW - seconds * 1000
}

/// One pod, idle for an hour, active for five minutes.
fn idle() -> ObservedWorkload {
    ObservedWorkload {
        replicas: 1,
        min_replicas: 1,
        allowed: true,
        scheduled: false,
        demand: Some(RequestDemand { desired: 0, least: 0, idle_since: Some(ago(3600)) }),
        activators_report: true,
        phase: ActivePhase::Active,
        phase_since: ago(300),
        proxied_since: None,
        verified_before: false,
        probe: None,
        seen: SeenFor::ALWAYS,
        wakeable: Some(true),
    }
}

fn active(seconds: i64) -> ObservedWorkload {
    ObservedWorkload { phase_since: ago(seconds), ..idle() }
}

fn activating(seconds: i64) -> ObservedWorkload {
    ObservedWorkload { phase: ActivePhase::Activating, ..active(seconds) }
}

fn inactive(inactive_for: i64, proxied_for: i64, probe: Option<bool>) -> ObservedWorkload {
    ObservedWorkload {
        phase: ActivePhase::Inactive,
        phase_since: ago(inactive_for),
        proxied_since: Some(ago(proxied_for)),
        verified_before: true,
        probe,
        ..idle()
    }
}

/// Inactive and proxied for equally long, with a successful probe in this pass.
fn verified(seconds: i64) -> ObservedWorkload {
    inactive(seconds, seconds, Some(true))
}

fn seconds(reason: StayReason, seconds: u64) -> ScaleToZeroStep {
    ScaleToZeroStep::wait(reason, Duration::from_secs(seconds))
}

/// A decision of 0 beside two ready pods.
fn decision(idle_since: Option<i64>) -> Decision {
    Decision {
        key: crate::Key::new("shop", "web"),
        desired: 0,
        panicking: false,
        held: false,
        excess_burst_capacity: 0,
        stable: 0.0,
        panic: 0.0,
        ready: 2,
        idle_since,
        decided_at: NOW,
        learning: None,
        hpa_lag: None,
    }
}

fn idle_since_with(idle_since: Option<i64>, received: i64, requested: Option<i64>) -> Option<i64> {
    let decision = Decision { decided_at: received, ..decision(idle_since) };
    RequestDemand::new(&decision, &settings(), received, requested).idle_since
}

#[test]
fn request_ends_idleness_until_a_decision_includes_it() {
    assert_eq!(idle_since_with(Some(ago(60)), ago(0), None), Some(ago(60)));
    assert_eq!(idle_since_with(None, ago(0), Some(ago(60))), None);
    // The last request before idleness began.
    assert_eq!(idle_since_with(Some(ago(60)), ago(0), Some(ago(57))), Some(ago(60)));
    // A request that the decision may not include.
    assert_eq!(idle_since_with(Some(ago(60)), ago(0), Some(ago(0))), None);
    assert_eq!(idle_since_with(Some(ago(60)), ago(56), Some(ago(56))), None);
    assert_eq!(idle_since_with(Some(ago(60)), ago(0), Some(ago(4))), None);
    // A request that it must include: the adapter's clock is ten seconds behind, or the report ten
    // seconds late.
    assert_eq!(idle_since_with(Some(ago(60)), ago(45), Some(ago(50))), Some(ago(50)));
}

#[test]
fn active_workload_waits_for_a_stable_window() {
    let s = settings();
    // Z1
    assert_eq!(next_step(&active(299), &s, NOW), seconds(StayReason::ActiveTooShortly, 1));
    // Z2: Knative (1, written, again). Here the HPA scales 10 pods to 1.
    assert_eq!(
        next_step(&ObservedWorkload { replicas: 10, ..active(299) }, &s, NOW),
        ScaleToZeroStep::stay(StayReason::NotAtMinimum)
    );
    // Z3
    assert_eq!(next_step(&active(300), &s, NOW), ScaleToZeroStep::GoInactive);
    // Z4: Knative (0, not written, again), because nothing else would start another reconcile. Here
    // the new condition does, and after a long time in Proxy only the probe is missing.
    let proxied = ObservedWorkload { proxied_since: Some(ago(60)), ..active(300) };
    assert_eq!(next_step(&proxied, &s, NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(
        next_step(&ObservedWorkload { phase: ActivePhase::Inactive, ..proxied }, &s, NOW),
        ScaleToZeroStep::ProbeActivator
    );
    // Z5: the workload's own window of 60 s is over long before the cluster's.
    assert_eq!(next_step(&active(300), &annotated(&[("window", "60s")]), NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(next_step(&active(60), &annotated(&[("window", "60s")]), NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(
        next_step(&active(59), &annotated(&[("window", "60s")]), NOW),
        seconds(StayReason::ActiveTooShortly, 1)
    );
}

#[test]
fn inactive_workload_waits_for_grace() {
    let s = settings();
    // Z6
    assert_eq!(next_step(&verified(60), &s, NOW), ScaleToZeroStep::ScaleToZero);
    // Z7: Knative's SKS is not in Proxy at all in this row; here that has its own reason.
    assert_eq!(next_step(&verified(59), &s, NOW), seconds(StayReason::Grace, 1));
    let unproxied = ObservedWorkload { proxied_since: None, ..verified(59) };
    assert_eq!(next_step(&unproxied, &s, NOW), ScaleToZeroStep::wait(StayReason::NotProxied, SOON));
    // Z8
    assert_eq!(next_step(&inactive(59, 59, Some(true)), &s, NOW), seconds(StayReason::Grace, 1));
    // Z9: the slices were in Proxy before the workload became inactive.
    assert_eq!(next_step(&inactive(59, 60, Some(true)), &s, NOW), ScaleToZeroStep::ScaleToZero);
    // Z6 with Proxy only for 5 s: Knative (0, written), because it was inactive for long. Slices
    // may have been out of Proxy in between.
    assert_eq!(next_step(&inactive(600, 5, Some(true)), &s, NOW), seconds(StayReason::Grace, 55));
}

#[test]
fn last_pod_is_kept_for_the_retention_period() {
    let at = |inactive_for, retention| {
        let config = resolved(&[], Duration::from_secs(retention));
        next_step(&inactive(inactive_for, 60, Some(true)), &config, NOW)
    };
    // Z10
    assert_eq!(at(59, 42), ScaleToZeroStep::ScaleToZero);
    // Z11
    assert_eq!(at(60, 120), seconds(StayReason::Grace, 60));
    // Z12
    let own = annotated(&[("scale-to-zero-pod-retention-period", "120s")]);
    assert_eq!(next_step(&verified(60), &own, NOW), seconds(StayReason::Grace, 60));
    // Z13
    let none = resolved(&[("scale-to-zero-pod-retention-period", "0")], Duration::from_secs(120));
    assert_eq!(next_step(&verified(60), &none, NOW), ScaleToZeroStep::ScaleToZero);
    // Z14
    assert_eq!(at(60, 60), ScaleToZeroStep::ScaleToZero);
    // The longer of the two counts.
    assert_eq!(next_step(&inactive(10, 50, Some(true)), &own, NOW), seconds(StayReason::Grace, 110));
    assert_eq!(next_step(&inactive(110, 20, Some(true)), &own, NOW), seconds(StayReason::Grace, 40));
}

#[test]
fn zero_and_the_way_there_need_pods_that_can_come_back() {
    let s = settings();
    let (due, at_end) = (active(300), inactive(60, 60, Some(true)));
    for (observed, step) in [(due, ScaleToZeroStep::GoInactive), (at_end, ScaleToZeroStep::ScaleToZero)] {
        let with = |wakeable| next_step(&ObservedWorkload { wakeable, ..observed }, &s, NOW);
        assert_eq!((with(None), with(Some(true))), (ScaleToZeroStep::CheckWake, step));
    }
    let blocked = |observed| next_step(&ObservedWorkload { wakeable: Some(false), ..observed }, &s, NOW);
    assert_eq!(blocked(due), ScaleToZeroStep::stay(StayReason::WakeBlocked));
    assert_eq!(blocked(at_end), ScaleToZeroStep::Reactivate);
    assert_eq!(
        next_step(&ObservedWorkload { wakeable: None, ..inactive(60, 60, None) }, &s, NOW),
        ScaleToZeroStep::ProbeActivator,
        "the probe is cheaper"
    );
}

#[test]
fn zero_needs_a_successful_probe_in_this_pass() {
    let s = settings();
    assert_eq!(next_step(&inactive(60, 60, None), &s, NOW), ScaleToZeroStep::ProbeActivator);
    // Z15: Knative (0, written) without a probe. The module docs have the reason for the
    // difference.
    let always_in_path = annotated(&[("target-burst-capacity", "-1")]);
    assert_eq!(next_step(&inactive(60, 60, None), &always_in_path, NOW), ScaleToZeroStep::ProbeActivator);
    let failed_probe = ScaleToZeroStep::wait(StayReason::PathNotVerified, SOON);
    assert_eq!(next_step(&inactive(60, 60, Some(false)), &always_in_path, NOW), failed_probe);
    assert_eq!(next_step(&verified(60), &always_in_path, NOW), ScaleToZeroStep::ScaleToZero);
    // Z16: Knative probes in the background for 45 s and then waits for an event; here the probe is
    // repeated.
    assert_eq!(next_step(&inactive(60, 60, Some(false)), &s, NOW), failed_probe);
    assert_eq!(next_step(&inactive(10, 10, Some(false)), &s, NOW), failed_probe);
    // The first probe is early, so that a failure shows before grace ends.
    let unverified = ObservedWorkload { verified_before: false, ..inactive(10, 10, None) };
    assert_eq!(next_step(&unverified, &s, NOW), ScaleToZeroStep::ProbeActivator);
    assert_eq!(
        next_step(&ObservedWorkload { probe: Some(true), ..unverified }, &s, NOW),
        seconds(StayReason::Grace, 50)
    );
    assert_eq!(next_step(&inactive(10, 10, None), &s, NOW), seconds(StayReason::Grace, 50));
}

#[test]
fn gives_up_unready_pods_after_the_progress_deadline() {
    let s = settings();
    // Z17: half of 151 s. Knative reconciles after another 151 s, here at the end of the deadline.
    let half = ObservedWorkload { phase_since: NOW - 75_500, ..activating(0) };
    assert_eq!(
        next_step(&half, &s, NOW),
        ScaleToZeroStep::wait(StayReason::Activating, Duration::from_millis(75_500))
    );
    assert_eq!(next_step(&activating(150), &s, NOW), seconds(StayReason::Activating, 1));
    // Z18: Knative (0, written). Here it becomes inactive, timed out, and needs a probe first.
    assert_eq!(next_step(&activating(152), &s, NOW), ScaleToZeroStep::GoInactive);
    let given_up =
        ObservedWorkload { phase: ActivePhase::Inactive, proxied_since: Some(ago(152)), ..active(0) };
    assert_eq!(next_step(&given_up, &s, NOW), ScaleToZeroStep::ProbeActivator);
    assert_eq!(
        next_step(&ObservedWorkload { probe: Some(true), ..given_up }, &s, NOW),
        ScaleToZeroStep::ScaleToZero
    );
    // Z19, likewise.
    let own = annotated(&[("progress-deadline", "5s")]);
    assert_eq!(next_step(&activating(36), &own, NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(next_step(&activating(34), &own, NOW), seconds(StayReason::Activating, 1));
    // The default is ten minutes.
    assert_eq!(next_step(&activating(600), &annotated(&[]), NOW), seconds(StayReason::Activating, 30));
    // Pods are not given up while requests are held.
    let waiting = ObservedWorkload {
        demand: Some(RequestDemand { desired: 1, least: 0, idle_since: None }),
        ..activating(9000)
    };
    assert_eq!(next_step(&waiting, &s, NOW), ScaleToZeroStep::stay(StayReason::Requests));
    // Knative gives them up without metrics as well; here no data is not idleness.
    let silent = ObservedWorkload { demand: None, ..activating(9000) };
    assert_eq!(next_step(&silent, &s, NOW), ScaleToZeroStep::stay(StayReason::NoDecision));
}

#[test]
fn workload_goes_to_zero_from_min_replicas_only() {
    let s = settings();
    // Z20: Knative (2, written), because a smallest size of 2 forbids zero. Here that size holds
    // above zero only. With 10 pods the sequence ends until the HPA has scaled to 2, and from 2 it
    // leads to zero, not 1.
    let ten = ObservedWorkload { replicas: 10, min_replicas: 2, ..verified(60) };
    assert_eq!(next_step(&ten, &s, NOW), ScaleToZeroStep::Reactivate);
    let two = ObservedWorkload { replicas: 2, min_replicas: 2, ..verified(60) };
    assert_eq!(next_step(&two, &s, NOW), ScaleToZeroStep::ScaleToZero);
    assert_eq!(next_step(&ObservedWorkload { replicas: 1, ..two }, &s, NOW), ScaleToZeroStep::Reactivate);
    // A workload with a smallest size of 2 that must not go to zero has scale-to-zero off.
    assert_eq!(next_step(&ObservedWorkload { allowed: false, ..two }, &s, NOW), ScaleToZeroStep::Reactivate);
}

/// The HPA keeps two pods, and half of two ready pods is one: decisions of 0 never come.
#[test]
fn rate_of_scaling_down_does_not_keep_min_replicas_from_zero() {
    let decision = |desired| {
        let demand = RequestDemand {
            desired,
            ..RequestDemand::new(&decision(Some(ago(360))), &settings(), NOW, None)
        };
        ObservedWorkload { replicas: 2, min_replicas: 2, demand: Some(demand), ..verified(60) }
    };
    let one = decision(1);
    assert_eq!(one.demand.map(|demand| demand.least), Some(1), "of two ready pods");
    assert_eq!(next_step(&one, &settings(), NOW), ScaleToZeroStep::ScaleToZero);
    assert_eq!(next_step(&decision(2), &settings(), NOW), ScaleToZeroStep::Reactivate, "more than the rate");
    let delayed = |delay| annotated(&[("scale-down-delay", delay)]);
    assert_eq!(
        next_step(&one, &delayed("1m"), NOW),
        ScaleToZeroStep::ScaleToZero,
        "idle for 5 min and 1 min"
    );
    assert_eq!(next_step(&one, &delayed("2m"), NOW), ScaleToZeroStep::Reactivate, "the delay is not over");
    assert_eq!(next_step(&decision(0), &delayed("2m"), NOW), ScaleToZeroStep::ScaleToZero);
}

#[test]
fn unreachable_workload_goes_to_zero_from_any_size_unretained() {
    let s = unreachable();
    let ten = ObservedWorkload { replicas: 10, min_replicas: 2, ..verified(60) };
    // Z21
    assert_eq!(next_step(&ten, &s, NOW), ScaleToZeroStep::ScaleToZero);
    assert_eq!(
        next_step(&ObservedWorkload { phase: ActivePhase::Active, ..ten }, &s, NOW),
        seconds(StayReason::ActiveTooShortly, 240)
    );
    // Z22
    let retained = edited(s.clone(), |s| s.zero.pod_retention = Duration::from_secs(600));
    assert_eq!(next_step(&verified(60), &retained, NOW), ScaleToZeroStep::ScaleToZero);
    // Z23
    assert_eq!(next_step(&verified(59), &retained, NOW), seconds(StayReason::Grace, 1));
    // A request that arrives nevertheless is served.
    let requested =
        ObservedWorkload { demand: Some(RequestDemand { desired: 1, least: 0, idle_since: None }), ..ten };
    assert_eq!(next_step(&requested, &s, NOW), ScaleToZeroStep::Reactivate);
    assert_eq!(
        next_step(&ObservedWorkload { replicas: 0, ..requested }, &s, NOW),
        ScaleToZeroStep::Reactivate
    );
}

#[test]
fn zero_is_allowed_if_requested_or_unreachable_and_cluster_allows() {
    for (requested, settings, allowed) in [
        (true, settings(), true),
        (false, settings(), false),
        (true, unreachable(), true),
        (false, unreachable(), true),
        (true, edited(settings(), |s| s.zero.enabled = false), false),
        (false, edited(unreachable(), |s| s.zero.enabled = false), false),
    ] {
        assert_eq!(is_allowed(requested, &settings), allowed, "{requested} {settings:?}");
    }
}

#[test]
fn no_decision_is_not_idleness_and_keeps_the_size() {
    // Z25, Z26
    for observed in [verified(600), idle(), activating(9000), ObservedWorkload { replicas: 12, ..idle() }] {
        let silent = ObservedWorkload { demand: None, ..observed };
        assert_eq!(next_step(&silent, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NoDecision));
    }
}

#[test]
fn initial_pods_are_kept_for_the_stable_window_only() {
    // Z29, Z30: Knative (1, written, again). Here the step waits, and the bounds bring 2 pods to 1:
    // at once if initialized or unreachable (see `scale_bounds`). An unreachable workload does not
    // wait for that.
    let two = ObservedWorkload { replicas: 2, ..active(120) };
    assert_eq!(next_step(&two, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NotAtMinimum));
    assert_eq!(next_step(&active(120), &settings(), NOW), seconds(StayReason::ActiveTooShortly, 180));
    assert_eq!(next_step(&two, &unreachable(), NOW), seconds(StayReason::ActiveTooShortly, 180));
    // Z32: Knative (0, not written, again after the grace period). Here only a request ends the
    // state at zero.
    let created_at_zero = ObservedWorkload { replicas: 0, ..inactive(0, 0, None) };
    assert_eq!(
        next_step(&created_at_zero, &annotated(&[("initial-scale", "0")]), NOW),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
}

#[test]
fn requests_end_the_scale_to_zero_sequence_at_once() {
    let s = settings();
    let ready_to_go = verified(600);
    assert_eq!(next_step(&ready_to_go, &s, NOW), ScaleToZeroStep::ScaleToZero);
    for demand in [
        RequestDemand { desired: 1, least: 0, idle_since: None },
        RequestDemand { desired: 0, least: 0, idle_since: None },
        RequestDemand { desired: 1, least: 0, idle_since: Some(ago(3600)) },
        // There was a request since.
        RequestDemand { desired: 0, least: 0, idle_since: Some(ago(299)) },
    ] {
        let observed = ObservedWorkload { demand: Some(demand), ..ready_to_go };
        assert_eq!(next_step(&observed, &s, NOW), ScaleToZeroStep::Reactivate, "{demand:?}");
        let expected = if demand == (RequestDemand { desired: 0, least: 0, idle_since: Some(ago(299)) }) {
            seconds(StayReason::IdleTooShortly, 1)
        } else {
            ScaleToZeroStep::stay(StayReason::Requests)
        };
        assert_eq!(
            next_step(&ObservedWorkload { phase: ActivePhase::Active, ..observed }, &s, NOW),
            expected,
            "{demand:?}"
        );
    }
}

#[test]
fn schedule_keeps_pods_without_requests_and_wakes() {
    let stay = ScaleToZeroStep::Stay { reason: StayReason::Scheduled, recheck: None };
    let scheduled = |observed| next_step(&ObservedWorkload { scheduled: true, ..observed }, &settings(), NOW);
    assert_eq!(scheduled(idle()), stay);
    assert_eq!(scheduled(ObservedWorkload { demand: None, ..idle() }), stay);
    assert_eq!(scheduled(verified(600)), ScaleToZeroStep::Reactivate, "in the sequence");
    let at_zero = ObservedWorkload { replicas: 0, phase: ActivePhase::Inactive, ..idle() };
    assert_eq!(scheduled(at_zero), ScaleToZeroStep::Reactivate);
    assert_eq!(scheduled(ObservedWorkload { demand: None, ..at_zero }), ScaleToZeroStep::Reactivate);
    let refused = ObservedWorkload { allowed: false, ..idle() };
    let not_allowed = ScaleToZeroStep::Stay { reason: StayReason::NotAllowed, recheck: None };
    assert_eq!(scheduled(refused), not_allowed);
}

#[test]
fn workload_stays_above_or_leaves_zero_when_zero_not_allowed() {
    // Z31: Knative (1); here the HPA writes the size.
    let refused = ObservedWorkload { allowed: false, ..idle() };
    assert_eq!(next_step(&refused, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NotAllowed));
    assert_eq!(
        next_step(&ObservedWorkload { allowed: false, ..verified(600) }, &settings(), NOW),
        ScaleToZeroStep::Reactivate
    );
    assert_eq!(
        next_step(&ObservedWorkload { replicas: 0, ..refused }, &settings(), NOW),
        ScaleToZeroStep::Reactivate
    );
}

#[test]
fn workload_at_zero_wakes_on_requests_only() {
    let at_zero = ObservedWorkload { replicas: 0, ..inactive(600, 600, None) };
    let of = |demand| next_step(&ObservedWorkload { demand, ..at_zero }, &settings(), NOW);
    assert_eq!(
        of(Some(RequestDemand { desired: 0, least: 0, idle_since: Some(ago(3600)) })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    assert_eq!(of(None), ScaleToZeroStep::stay(StayReason::AtZero));
    assert_eq!(
        of(Some(RequestDemand { desired: 0, least: 0, idle_since: None })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    // A size that is held by a delay or a panic, without requests.
    assert_eq!(
        of(Some(RequestDemand { desired: 3, least: 0, idle_since: Some(ago(1)) })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    assert_eq!(
        of(Some(RequestDemand { desired: 3, least: 0, idle_since: None })),
        ScaleToZeroStep::Reactivate
    );
    let negative = ObservedWorkload { replicas: -1, ..at_zero };
    assert_eq!(next_step(&negative, &settings(), NOW), ScaleToZeroStep::stay(StayReason::AtZero));
}

#[test]
fn clock_step_back_prolongs_grace_only() {
    assert_eq!(next_step(&verified(-30), &settings(), NOW), seconds(StayReason::Grace, 60));
}

#[test]
fn recheck_is_rounded_up_to_whole_milliseconds() {
    let s = edited(settings(), |s| s.zero.grace_period = Duration::from_nanos(1));
    assert_eq!(
        next_step(&verified(0), &s, NOW),
        ScaleToZeroStep::wait(StayReason::Grace, Duration::from_millis(1))
    );
    assert_eq!(next_step(&verified(0), &s, NOW + 1), ScaleToZeroStep::ScaleToZero);
    let s = edited(settings(), |s| s.zero.grace_period = Duration::from_micros(2500));
    assert_eq!(
        next_step(&verified(0), &s, NOW + 1),
        ScaleToZeroStep::wait(StayReason::Grace, Duration::from_millis(2))
    );
    let longest = edited(settings(), |s| s.wake.progress_deadline = Duration::MAX);
    assert_eq!(
        next_step(&activating(0), &longest, NOW),
        ScaleToZeroStep::wait(StayReason::Activating, Duration::from_millis(u64::MAX))
    );
}

/// The clock of this process jumped, or the one of the process that wrote a time is behind.
#[test]
fn periods_pass_by_wall_clock_and_since_this_process_saw_them() {
    let seen = |idle, phase, proxied| SeenFor {
        idle: Duration::from_secs(idle),
        phase: Duration::from_secs(phase),
        proxied: Duration::from_secs(proxied),
    };
    let step = |observed, seen| next_step(&ObservedWorkload { seen, ..observed }, &settings(), NOW);
    assert_eq!(step(active(300), seen(299, 300, 0)), seconds(StayReason::IdleTooShortly, 1));
    assert_eq!(step(active(300), seen(300, 299, 0)), seconds(StayReason::ActiveTooShortly, 1));
    assert_eq!(step(active(300), seen(300, 300, 0)), ScaleToZeroStep::GoInactive);
    assert_eq!(step(verified(3600), seen(300, 60, 59)), seconds(StayReason::Grace, 1));
    assert_eq!(step(verified(3600), seen(300, 60, 60)), ScaleToZeroStep::ScaleToZero);
}

#[test]
fn silent_activator_keeps_workload_above_zero_in_every_phase() {
    let silent = |observed| ObservedWorkload { activators_report: false, ..observed };
    let stay = ScaleToZeroStep::stay(StayReason::ActivatorSilent);
    for observed in [active(300), activating(3600), verified(300), inactive(300, 300, None)] {
        assert_eq!(next_step(&silent(observed), &settings(), NOW), stay);
    }
    let demand = Some(RequestDemand { desired: 0, least: 0, idle_since: None });
    assert_eq!(next_step(&silent(ObservedWorkload { demand, ..active(300) }), &settings(), NOW), stay);
    let wanted = ObservedWorkload { demand, ..verified(300) };
    assert_eq!(next_step(&silent(wanted), &settings(), NOW), ScaleToZeroStep::Reactivate);
}

#[test]
fn every_stay_reason_has_its_own_message() {
    let all = [
        StayReason::NotAllowed,
        StayReason::AtZero,
        StayReason::NotAtMinimum,
        StayReason::NoDecision,
        StayReason::ActivatorSilent,
        StayReason::Requests,
        StayReason::IdleTooShortly,
        StayReason::ActiveTooShortly,
        StayReason::Activating,
        StayReason::NotProxied,
        StayReason::PathNotVerified,
        StayReason::Grace,
        StayReason::OtherWriter,
    ];
    let messages: std::collections::BTreeSet<_> = all.iter().map(|reason| reason.message()).collect();
    assert_eq!(messages.len(), all.len());
    assert!(messages.iter().all(|text| text.len() > 10));
}
