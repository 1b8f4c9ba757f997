//! Golden rows of Knative's `pkg/reconciler/autoscaling/kpa/scaler_test.go`, and the laws that hold for anything observed.
//!
//! Each row is named. Knative answers with (scale, written?, looks again?); where Rouse answers differently, Knative's answer and
//! the reason stand beside the row. Rows about bounds alone (Z24 to Z28) are in `scale_bounds`.

use proptest::prelude::*;

use super::*;
use crate::contract::GROUP;
use crate::settings::AutoscalerConfig;
use crate::settings::Reachability;

const NOW: i64 = 10_000_000;

/// The fixture of scaler_test.go: grace 60 s, stable window 5 min, progress deadline 121 s.
fn settings() -> Settings {
    annotated(&[("progress-deadline", "121s")])
}

fn annotated(annotations: &[(&str, &str)]) -> Settings {
    resolved(annotations, Duration::ZERO)
}

fn resolved(annotations: &[(&str, &str)], retention: Duration) -> Settings {
    let config = AutoscalerConfig {
        stable_window: Duration::from_secs(300),
        scale_to_zero_grace_period: Duration::from_secs(60),
        scale_to_zero_pod_retention_period: retention,
        allow_zero_initial_scale: true,
        ..AutoscalerConfig::default()
    };
    let annotations = annotations.iter().map(|(k, v)| (format!("{GROUP}/{k}"), (*v).to_owned())).collect();
    let (settings, errors) = Settings::resolve(&config, &annotations);
    assert_eq!(errors, []);
    settings
}

fn unreachable() -> Settings {
    Settings { reachability: Reachability::Unreachable, ..settings() }
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
        demand: Some(RequestDemand { desired: 0, idle_since: Some(ago(3600)) }),
        phase: ActivePhase::Active,
        phase_since: ago(300),
        proxied_since: None,
        verified_before: false,
        probe: None,
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

/// Inactive and proxied for equally long, and proven just now.
fn proven(seconds: i64) -> ObservedWorkload {
    inactive(seconds, seconds, Some(true))
}

fn seconds(reason: StayReason, seconds: u64) -> ScaleToZeroStep {
    ScaleToZeroStep::wait(reason, Duration::from_secs(seconds))
}

fn heard_of(idle_since: Option<i64>, heard: i64, asked: Option<i64>) -> Option<i64> {
    let decision = Decision {
        key: crate::Key::new("shop", "web"),
        desired: 0,
        panicking: false,
        held: false,
        excess_burst_capacity: 0,
        stable: 0.0,
        panic: 0.0,
        ready: 1,
        idle_since,
        decided_at: heard,
    };
    RequestDemand::new(&decision, heard, asked).idle_since
}

#[test]
fn a_request_ends_idleness_until_a_decision_must_know_of_it() {
    assert_eq!(heard_of(Some(ago(60)), ago(0), None), Some(ago(60)));
    assert_eq!(heard_of(None, ago(0), Some(ago(60))), None);
    // The last request before idleness began.
    assert_eq!(heard_of(Some(ago(60)), ago(0), Some(ago(57))), Some(ago(60)));
    // One that the decision cannot know of.
    assert_eq!(heard_of(Some(ago(60)), ago(0), Some(ago(0))), None);
    assert_eq!(heard_of(Some(ago(60)), ago(56), Some(ago(56))), None);
    assert_eq!(heard_of(Some(ago(60)), ago(0), Some(ago(4))), None);
    // One that it must know of: the adapter's clock is ten seconds behind ours, or the word came ten seconds late.
    assert_eq!(heard_of(Some(ago(60)), ago(45), Some(ago(50))), Some(ago(50)));
}

#[test]
fn active_workloads_wait_for_a_stable_window() {
    let s = settings();
    // Z1
    assert_eq!(next_step(&active(299), &s, NOW), seconds(StayReason::ActiveTooShortly, 1));
    // Z2: Knative (1, written, again). Here 10 pods are brought to 1 by whoever scales above zero.
    assert_eq!(
        next_step(&ObservedWorkload { replicas: 10, ..active(299) }, &s, NOW),
        ScaleToZeroStep::stay(StayReason::NotAtMinimum)
    );
    // Z3
    assert_eq!(next_step(&active(300), &s, NOW), ScaleToZeroStep::GoInactive);
    // Z4: Knative (0, not written, again), for fear that nothing else would bring it back. Here the new condition does, and
    // with Proxy in force for long only the proof is missing.
    let proxied = ObservedWorkload { proxied_since: Some(ago(60)), ..active(300) };
    assert_eq!(next_step(&proxied, &s, NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(
        next_step(&ObservedWorkload { phase: ActivePhase::Inactive, ..proxied }, &s, NOW),
        ScaleToZeroStep::ProbeActivator
    );
    // Z5: its own window of 60 s is over long before the cluster's.
    assert_eq!(next_step(&active(300), &annotated(&[("window", "60s")]), NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(next_step(&active(60), &annotated(&[("window", "60s")]), NOW), ScaleToZeroStep::GoInactive);
    assert_eq!(
        next_step(&active(59), &annotated(&[("window", "60s")]), NOW),
        seconds(StayReason::ActiveTooShortly, 1)
    );
}

#[test]
fn inactive_workloads_wait_for_grace() {
    let s = settings();
    // Z6
    assert_eq!(next_step(&proven(60), &s, NOW), ScaleToZeroStep::ScaleToZero);
    // Z7: Knative's SKS is not in Proxy at all in this row; here that is said.
    assert_eq!(next_step(&proven(59), &s, NOW), seconds(StayReason::Grace, 1));
    let unproxied = ObservedWorkload { proxied_since: None, ..proven(59) };
    assert_eq!(next_step(&unproxied, &s, NOW), ScaleToZeroStep::wait(StayReason::NotProxied, SOON));
    // Z8
    assert_eq!(next_step(&inactive(59, 59, Some(true)), &s, NOW), seconds(StayReason::Grace, 1));
    // Z9: the slices were in Proxy before the workload became inactive.
    assert_eq!(next_step(&inactive(59, 60, Some(true)), &s, NOW), ScaleToZeroStep::ScaleToZero);
    // Z6 with Proxy only for 5 s: Knative (0, written), because it was inactive for long. Slices may have been out of Proxy
    // in between.
    assert_eq!(next_step(&inactive(600, 5, Some(true)), &s, NOW), seconds(StayReason::Grace, 55));
}

#[test]
fn the_last_pod_is_retained() {
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
    assert_eq!(next_step(&proven(60), &own, NOW), seconds(StayReason::Grace, 60));
    // Z13
    let none = resolved(&[("scale-to-zero-pod-retention-period", "0")], Duration::from_secs(120));
    assert_eq!(next_step(&proven(60), &none, NOW), ScaleToZeroStep::ScaleToZero);
    // Z14
    assert_eq!(at(60, 60), ScaleToZeroStep::ScaleToZero);
    // The longer of the two is waited for.
    assert_eq!(next_step(&inactive(10, 50, Some(true)), &own, NOW), seconds(StayReason::Grace, 110));
    assert_eq!(next_step(&inactive(110, 20, Some(true)), &own, NOW), seconds(StayReason::Grace, 40));
}

#[test]
fn nothing_goes_to_zero_without_a_proof_of_this_pass() {
    let s = settings();
    assert_eq!(next_step(&inactive(60, 60, None), &s, NOW), ScaleToZeroStep::ProbeActivator);
    // Z15: Knative (0, written) without a probe. The reason for ours is at the top of the module.
    let always_in_path = annotated(&[("target-burst-capacity", "-1")]);
    assert_eq!(next_step(&inactive(60, 60, None), &always_in_path, NOW), ScaleToZeroStep::ProbeActivator);
    let refused = ScaleToZeroStep::wait(StayReason::PathNotVerified, SOON);
    assert_eq!(next_step(&inactive(60, 60, Some(false)), &always_in_path, NOW), refused);
    assert_eq!(next_step(&proven(60), &always_in_path, NOW), ScaleToZeroStep::ScaleToZero);
    // Z16: Knative asks on in the background for 45 s and then waits for something to happen; we ask on for good.
    assert_eq!(next_step(&inactive(60, 60, Some(false)), &s, NOW), refused);
    assert_eq!(next_step(&inactive(10, 10, Some(false)), &s, NOW), refused);
    // The first proof is asked for early, so that what is wrong shows before the end.
    let unproven = ObservedWorkload { verified_before: false, ..inactive(10, 10, None) };
    assert_eq!(next_step(&unproven, &s, NOW), ScaleToZeroStep::ProbeActivator);
    assert_eq!(
        next_step(&ObservedWorkload { probe: Some(true), ..unproven }, &s, NOW),
        seconds(StayReason::Grace, 50)
    );
    assert_eq!(next_step(&inactive(10, 10, None), &s, NOW), seconds(StayReason::Grace, 50));
}

#[test]
fn pods_that_never_come_are_given_up_after_the_progress_deadline() {
    let s = settings();
    // Z17: half of 151 s. Knative looks again after another 151 s, here at the end.
    let half = ObservedWorkload { phase_since: NOW - 75_500, ..activating(0) };
    assert_eq!(
        next_step(&half, &s, NOW),
        ScaleToZeroStep::wait(StayReason::Activating, Duration::from_millis(75_500))
    );
    assert_eq!(next_step(&activating(150), &s, NOW), seconds(StayReason::Activating, 1));
    // Z18: Knative (0, written). Here it becomes inactive, timed out, and is proven first.
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
    // Nobody gives up pods that requests wait for.
    let waiting =
        ObservedWorkload { demand: Some(RequestDemand { desired: 1, idle_since: None }), ..activating(9000) };
    assert_eq!(next_step(&waiting, &s, NOW), ScaleToZeroStep::stay(StayReason::Requests));
    // Knative gives them up without metrics as well; for us silence is no idleness.
    let silent = ObservedWorkload { demand: None, ..activating(9000) };
    assert_eq!(next_step(&silent, &s, NOW), ScaleToZeroStep::stay(StayReason::NoDecision));
}

#[test]
fn a_workload_above_one_rests_at_its_minimum() {
    let s = settings();
    // Z20: Knative (2, written), because a smallest size of 2 forbids zero. Here it is that of a workload that is awake: with
    // 10 pods the way is left until whoever scales them has come to 2, and from there it leads to zero and not to 1.
    let ten = ObservedWorkload { replicas: 10, min_replicas: 2, ..proven(60) };
    assert_eq!(next_step(&ten, &s, NOW), ScaleToZeroStep::Reactivate);
    let two = ObservedWorkload { replicas: 2, min_replicas: 2, ..proven(60) };
    assert_eq!(next_step(&two, &s, NOW), ScaleToZeroStep::ScaleToZero);
    assert_eq!(next_step(&ObservedWorkload { replicas: 1, ..two }, &s, NOW), ScaleToZeroStep::Reactivate);
    // A smallest size of 2 that forbids zero is one without scale-to-zero.
    assert_eq!(next_step(&ObservedWorkload { allowed: false, ..two }, &s, NOW), ScaleToZeroStep::Reactivate);
}

#[test]
fn an_unreachable_workload_goes_from_any_size_and_is_not_retained() {
    let s = unreachable();
    let ten = ObservedWorkload { replicas: 10, min_replicas: 2, ..proven(60) };
    // Z21
    assert_eq!(next_step(&ten, &s, NOW), ScaleToZeroStep::ScaleToZero);
    assert_eq!(
        next_step(&ObservedWorkload { phase: ActivePhase::Active, ..ten }, &s, NOW),
        seconds(StayReason::ActiveTooShortly, 240)
    );
    // Z22
    let retained = Settings { scale_to_zero_pod_retention_period: Duration::from_secs(600), ..s.clone() };
    assert_eq!(next_step(&proven(60), &retained, NOW), ScaleToZeroStep::ScaleToZero);
    // Z23
    assert_eq!(next_step(&proven(59), &retained, NOW), seconds(StayReason::Grace, 1));
    // A request that came all the same is served.
    let asked = ObservedWorkload { demand: Some(RequestDemand { desired: 1, idle_since: None }), ..ten };
    assert_eq!(next_step(&asked, &s, NOW), ScaleToZeroStep::Reactivate);
    assert_eq!(next_step(&ObservedWorkload { replicas: 0, ..asked }, &s, NOW), ScaleToZeroStep::Reactivate);
}

#[test]
fn zero_is_for_who_asks_or_cannot_be_reached_where_the_cluster_allows_it() {
    for (asks, settings, allowed) in [
        (true, settings(), true),
        (false, settings(), false),
        (true, unreachable(), true),
        (false, unreachable(), true),
        (true, Settings { enable_scale_to_zero: false, ..settings() }, false),
        (false, Settings { enable_scale_to_zero: false, ..unreachable() }, false),
    ] {
        assert_eq!(is_allowed(asks, &settings), allowed, "{asks} {settings:?}");
    }
}

#[test]
fn silence_is_not_idleness_and_changes_nothing() {
    // Z25, Z26
    for observed in [proven(600), idle(), activating(9000), ObservedWorkload { replicas: 12, ..idle() }] {
        let silent = ObservedWorkload { demand: None, ..observed };
        assert_eq!(next_step(&silent, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NoDecision));
    }
}

#[test]
fn initial_pods_are_kept_for_the_stable_window_only() {
    // Z29, Z30: Knative (1, written, again). Here the step waits, and the bounds bring 2 pods to 1: at once if initialized or
    // unreachable (see `scale_bounds`), and for an unreachable one the way does not wait for that.
    let two = ObservedWorkload { replicas: 2, ..active(120) };
    assert_eq!(next_step(&two, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NotAtMinimum));
    assert_eq!(next_step(&active(120), &settings(), NOW), seconds(StayReason::ActiveTooShortly, 180));
    assert_eq!(next_step(&two, &unreachable(), NOW), seconds(StayReason::ActiveTooShortly, 180));
    // Z32: Knative (0, not written, again after the grace period). Here a workload at zero waits for nothing but a request.
    let born_asleep = ObservedWorkload { replicas: 0, ..inactive(0, 0, None) };
    assert_eq!(
        next_step(&born_asleep, &annotated(&[("initial-scale", "0")]), NOW),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
}

#[test]
fn requests_end_the_way_to_zero_at_once() {
    let s = settings();
    let ready_to_go = proven(600);
    assert_eq!(next_step(&ready_to_go, &s, NOW), ScaleToZeroStep::ScaleToZero);
    for demand in [
        RequestDemand { desired: 1, idle_since: None },
        RequestDemand { desired: 0, idle_since: None },
        RequestDemand { desired: 1, idle_since: Some(ago(3600)) },
        // A request came and went.
        RequestDemand { desired: 0, idle_since: Some(ago(299)) },
    ] {
        let observed = ObservedWorkload { demand: Some(demand), ..ready_to_go };
        assert_eq!(next_step(&observed, &s, NOW), ScaleToZeroStep::Reactivate, "{demand:?}");
        let expected = if demand == (RequestDemand { desired: 0, idle_since: Some(ago(299)) }) {
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
fn a_workload_that_may_not_go_to_zero_stays_or_comes_back() {
    // Z31: Knative says 1; here whoever scales above zero does.
    let refused = ObservedWorkload { allowed: false, ..idle() };
    assert_eq!(next_step(&refused, &settings(), NOW), ScaleToZeroStep::stay(StayReason::NotAllowed));
    assert_eq!(
        next_step(&ObservedWorkload { allowed: false, ..proven(600) }, &settings(), NOW),
        ScaleToZeroStep::Reactivate
    );
    assert_eq!(
        next_step(&ObservedWorkload { replicas: 0, ..refused }, &settings(), NOW),
        ScaleToZeroStep::Reactivate
    );
}

#[test]
fn a_sleeping_workload_wakes_on_demand_alone() {
    let asleep = ObservedWorkload { replicas: 0, ..inactive(600, 600, None) };
    let of = |demand| next_step(&ObservedWorkload { demand, ..asleep }, &settings(), NOW);
    assert_eq!(
        of(Some(RequestDemand { desired: 0, idle_since: Some(ago(3600)) })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    assert_eq!(of(None), ScaleToZeroStep::stay(StayReason::AtZero));
    assert_eq!(
        of(Some(RequestDemand { desired: 0, idle_since: None })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    // A size that is held, by a delay or a panic, while nobody asks.
    assert_eq!(
        of(Some(RequestDemand { desired: 3, idle_since: Some(ago(1)) })),
        ScaleToZeroStep::stay(StayReason::AtZero)
    );
    assert_eq!(of(Some(RequestDemand { desired: 3, idle_since: None })), ScaleToZeroStep::Reactivate);
    let nonsense = ObservedWorkload { replicas: -1, ..asleep };
    assert_eq!(next_step(&nonsense, &settings(), NOW), ScaleToZeroStep::stay(StayReason::AtZero));
}

#[test]
fn a_clock_that_ran_backwards_waits_longer_and_no_more() {
    assert_eq!(next_step(&proven(-30), &settings(), NOW), seconds(StayReason::Grace, 60));
}

#[test]
fn parts_of_a_millisecond_are_waited_for_whole() {
    let s = Settings { scale_to_zero_grace_period: Duration::from_nanos(1), ..settings() };
    assert_eq!(
        next_step(&proven(0), &s, NOW),
        ScaleToZeroStep::wait(StayReason::Grace, Duration::from_millis(1))
    );
    assert_eq!(next_step(&proven(0), &s, NOW + 1), ScaleToZeroStep::ScaleToZero);
    let s = Settings { scale_to_zero_grace_period: Duration::from_micros(2500), ..settings() };
    assert_eq!(
        next_step(&proven(0), &s, NOW + 1),
        ScaleToZeroStep::wait(StayReason::Grace, Duration::from_millis(2))
    );
    let longest = Settings { progress_deadline: Duration::MAX, ..settings() };
    assert_eq!(
        next_step(&activating(0), &longest, NOW),
        ScaleToZeroStep::wait(StayReason::Activating, Duration::from_millis(u64::MAX))
    );
}

#[test]
fn every_reason_has_words_of_its_own() {
    let all = [
        StayReason::NotAllowed,
        StayReason::AtZero,
        StayReason::NotAtMinimum,
        StayReason::NoDecision,
        StayReason::Requests,
        StayReason::IdleTooShortly,
        StayReason::ActiveTooShortly,
        StayReason::Activating,
        StayReason::NotProxied,
        StayReason::PathNotVerified,
        StayReason::Grace,
    ];
    let words: std::collections::BTreeSet<_> = all.iter().map(|reason| reason.message()).collect();
    assert_eq!(words.len(), all.len());
    assert!(words.iter().all(|text| text.len() > 10));
}

/// Times of every kind, most of them near each other.
fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => NOW - 2_000_000..NOW + 10_000, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn any_observed() -> impl Strategy<Value = ObservedWorkload> {
    let phase =
        prop::sample::select(vec![ActivePhase::Active, ActivePhase::Activating, ActivePhase::Inactive]);
    let demand = (0u32..3, prop::option::weighted(0.8, any_time()))
        .prop_map(|(desired, idle_since)| RequestDemand { desired: desired / 2, idle_since });
    (
        prop_oneof![4 => -1i32..4, 1 => any::<i32>()],
        1i32..3,
        prop::bool::weighted(0.9),
        prop::option::weighted(0.9, demand),
        phase,
        any_time(),
        prop::option::weighted(0.9, any_time()),
        any::<bool>(),
        prop::option::of(prop::bool::weighted(0.8)),
    )
        .prop_map(
            |(
                replicas,
                min_replicas,
                allowed,
                demand,
                phase,
                phase_since,
                proxied_since,
                verified_before,
                probe,
            )| {
                ObservedWorkload {
                    replicas,
                    min_replicas,
                    allowed,
                    demand,
                    phase,
                    phase_since,
                    proxied_since,
                    verified_before,
                    probe,
                }
            },
        )
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let period = || prop_oneof![4 => 0u64..700_000_000_000, 1 => any::<u64>()].prop_map(Duration::from_nanos);
    (6u64..3600, period(), period(), period(), any::<bool>()).prop_map(
        |(window, grace, retention, deadline, reachable)| Settings {
            stable_window: Duration::from_secs(window),
            scale_to_zero_grace_period: grace,
            scale_to_zero_pod_retention_period: retention,
            progress_deadline: deadline,
            reachability: if reachable { Reachability::Reachable } else { Reachability::Unreachable },
            ..settings()
        },
    )
}

/// Whether `period` has passed since `start`, in arithmetic that cannot overflow.
fn is_over(start: i64, period: Duration, now: i64) -> bool {
    (i128::from(now) - i128::from(start)) * 1_000_000 >= i128::try_from(period.as_nanos()).unwrap()
}

/// As long as `i64` can count; a period that is longer than that never ends.
fn can_be_told(start: i64, now: i64) -> bool {
    now.checked_sub(start).is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn zero_only_when_idle_proven_at_rest_and_out_of_grace(
        observed in any_observed(), settings in any_settings(), now in any_time(),
    ) {
        if next_step(&observed, &settings, now) != ScaleToZeroStep::ScaleToZero {
            return Ok(());
        }
        prop_assert!(observed.allowed && observed.replicas > 0);
        prop_assert_eq!(observed.probe, Some(true));
        prop_assert_eq!(observed.phase, ActivePhase::Inactive);
        let demand = observed.demand.unwrap();
        prop_assert_eq!(demand.desired, 0);
        prop_assert!(is_over(demand.idle_since.unwrap(), settings.stable_window, now));
        prop_assert!(is_over(observed.proxied_since.unwrap(), settings.scale_to_zero_grace_period, now));
        if settings.reachability.is_reachable() {
            prop_assert_eq!(observed.replicas, observed.min_replicas);
            prop_assert!(is_over(observed.phase_since, settings.scale_to_zero_pod_retention_period, now));
        }
    }

    /// The other way round: whoever fulfils all of it goes.
    #[test]
    fn an_idle_workload_gets_there(observed in any_observed(), settings in any_settings(), now in NOW..i64::MAX) {
        let hour = |period: Duration| period.min(Duration::from_secs(3600));
        let settings = Settings {
            scale_to_zero_grace_period: hour(settings.scale_to_zero_grace_period),
            scale_to_zero_pod_retention_period: hour(settings.scale_to_zero_pod_retention_period),
            ..settings
        };
        let long_ago = now - 3_600_000;
        let ready = ObservedWorkload {
            replicas: observed.min_replicas,
            allowed: true,
            demand: Some(RequestDemand { desired: 0, idle_since: Some(long_ago) }),
            phase: ActivePhase::Inactive,
            phase_since: long_ago,
            proxied_since: Some(long_ago),
            probe: Some(true),
            ..observed
        };
        prop_assert_eq!(next_step(&ready, &settings, now), ScaleToZeroStep::ScaleToZero);
        prop_assert_eq!(next_step(&ObservedWorkload { probe: None, ..ready }, &settings, now), ScaleToZeroStep::ProbeActivator);
    }

    /// A recheck is never at once, and whoever follows it finds another answer or another time to look.
    #[test]
    fn waiting_makes_progress(observed in any_observed(), settings in any_settings(), now in any_time()) {
        let first = next_step(&observed, &settings, now);
        let ScaleToZeroStep::Stay { reason, recheck: Some(recheck) } = first else { return Ok(()) };
        prop_assert!(recheck >= Duration::from_millis(1));
        let later = i64::try_from(recheck.as_millis()).ok().and_then(|rest| now.checked_add(rest));
        let Some(later) = later else { return Ok(()) };
        let second = next_step(&observed, &settings, later);
        let asks_again = matches!(second, ScaleToZeroStep::Stay { recheck: Some(again), .. } if !again.is_zero());
        prop_assert!(second != first || asks_again, "{:?}", second);
        // What is waited for by the clock ends with it, if the clock is right.
        let by_the_clock = !matches!(reason, StayReason::NotProxied | StayReason::PathNotVerified);
        let starts = [Some(observed.phase_since), observed.proxied_since, observed.demand.and_then(|d| d.idle_since)];
        if by_the_clock && starts.into_iter().flatten().all(|start| start <= now && can_be_told(start, now)) {
            prop_assert!(second != first, "{:?}", second);
            prop_assert!(!matches!(second, ScaleToZeroStep::Stay { reason: same, .. } if same == reason), "{:?}", second);
        }
    }

    /// Being unreachable only ever shortens the way.
    #[test]
    fn an_unreachable_workload_goes_where_a_reachable_one_would(
        observed in any_observed(), settings in any_settings(), now in any_time(),
    ) {
        let reachable = Settings { reachability: Reachability::Reachable, ..settings.clone() };
        let unreachable = Settings { reachability: Reachability::Unreachable, ..settings };
        if next_step(&observed, &reachable, now) == ScaleToZeroStep::ScaleToZero {
            prop_assert_eq!(next_step(&observed, &unreachable, now), ScaleToZeroStep::ScaleToZero);
        }
    }
}
