//! Laws of the scale-to-zero sequence, for any workload, settings and time.

use proptest::prelude::*;

use super::tests::{NOW, edited, settings, unreachable};
use super::*;
use crate::settings::Reachability;

/// Mostly times near each other, sometimes extreme ones.
fn any_time() -> impl Strategy<Value = i64> {
    prop_oneof![4 => NOW - 2_000_000..NOW + 10_000, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)]
}

fn any_observed() -> impl Strategy<Value = ObservedWorkload> {
    let phase =
        prop::sample::select(vec![ActivePhase::Active, ActivePhase::Activating, ActivePhase::Inactive]);
    let demand = (0u32..3, 0u32..2, prop::option::weighted(0.8, any_time()))
        .prop_map(|(desired, least, idle_since)| RequestDemand { desired: desired / 2, least, idle_since });
    (
        prop_oneof![4 => -1i32..4, 1 => any::<i32>()],
        1i32..3,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.9, demand),
        prop::bool::weighted(0.9),
        phase,
        any_time(),
        prop::option::weighted(0.9, any_time()),
        any::<bool>(),
        prop::option::of(prop::bool::weighted(0.8)),
        prop_oneof![4 => Just(SeenFor::ALWAYS), 1 => any_seen()],
    )
        .prop_map(
            |(
                replicas,
                min_replicas,
                allowed,
                scheduled,
                demand,
                activators_report,
                phase,
                phase_since,
                proxied_since,
                verified_before,
                probe,
                seen,
            )| {
                ObservedWorkload {
                    replicas,
                    min_replicas,
                    allowed,
                    scheduled,
                    demand,
                    activators_report,
                    phase,
                    phase_since,
                    proxied_since,
                    verified_before,
                    probe,
                    seen,
                    wakeable: Some(true),
                }
            },
        )
}

fn any_seen() -> impl Strategy<Value = SeenFor> {
    let seconds = || (0u64..700).prop_map(Duration::from_secs);
    (seconds(), seconds(), seconds()).prop_map(|(idle, phase, proxied)| SeenFor { idle, phase, proxied })
}

/// The same at a later time.
fn later_by(seen: SeenFor, time: Duration) -> SeenFor {
    let SeenFor { idle, phase, proxied } = seen;
    let [idle, phase, proxied] = [idle, phase, proxied].map(|seen| seen.saturating_add(time));
    SeenFor { idle, phase, proxied }
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let period = || prop_oneof![4 => 0u64..700_000_000_000, 1 => any::<u64>()].prop_map(Duration::from_nanos);
    (6u64..3600, period(), period(), period(), any::<bool>()).prop_map(
        |(window, grace, retention, deadline, reachable)| {
            edited(if reachable { settings() } else { unreachable() }, |s| {
                s.window.stable = Duration::from_secs(window);
                s.zero.grace_period = grace;
                s.zero.pod_retention = retention;
                s.wake.progress_deadline = deadline;
            })
        },
    )
}

/// Whether `period` has passed since `start`, in arithmetic that cannot overflow.
fn is_over(start: i64, period: Duration, now: i64) -> bool {
    (i128::from(now) - i128::from(start)) * 1_000_000 >= i128::try_from(period.as_nanos()).unwrap()
}

/// Whether the difference fits into `i64`; a longer period never ends.
fn fits_i64(start: i64, now: i64) -> bool {
    now.checked_sub(start).is_some()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn zero_only_when_idle_verified_at_minimum_and_out_of_grace(
        observed in any_observed(), settings in any_settings(), now in any_time(),
    ) {
        if next_step(&observed, &settings, now) != ScaleToZeroStep::ScaleToZero {
            return Ok(());
        }
        prop_assert!(observed.allowed && !observed.scheduled && observed.replicas > 0);
        prop_assert!(observed.activators_report);
        prop_assert_eq!(observed.probe, Some(true));
        prop_assert_eq!(observed.phase, ActivePhase::Inactive);
        let demand = observed.demand.unwrap();
        prop_assert!(demand.desired <= demand.least);
        prop_assert!(observed.seen.idle >= settings.window.stable);
        prop_assert!(observed.seen.proxied >= settings.zero.grace_period);
        prop_assert!(is_over(demand.idle_since.unwrap(), settings.window.stable, now));
        prop_assert!(is_over(observed.proxied_since.unwrap(), settings.zero.grace_period, now));
        if settings.zero.reachability.is_reachable() {
            prop_assert_eq!(observed.replicas, observed.min_replicas);
            prop_assert!(is_over(observed.phase_since, settings.zero.pod_retention, now));
        }
    }

    /// The reverse of the law above: a workload that meets all conditions goes to zero.
    #[test]
    fn idle_workload_reaches_zero(observed in any_observed(), settings in any_settings(), now in NOW..i64::MAX) {
        let hour = |period: Duration| period.min(Duration::from_secs(3600));
        let settings = edited(settings, |s| {
            s.zero.grace_period = hour(s.zero.grace_period);
            s.zero.pod_retention = hour(s.zero.pod_retention);
        });
        let long_ago = now - 3_600_000;
        let ready = ObservedWorkload {
            replicas: observed.min_replicas,
            allowed: true,
            scheduled: false,
            demand: Some(RequestDemand { desired: 0, least: 0, idle_since: Some(long_ago) }),
            activators_report: true,
            phase: ActivePhase::Inactive,
            phase_since: long_ago,
            proxied_since: Some(long_ago),
            probe: Some(true),
            seen: SeenFor::ALWAYS,
            ..observed
        };
        prop_assert_eq!(next_step(&ready, &settings, now), ScaleToZeroStep::ScaleToZero);
        prop_assert_eq!(next_step(&ObservedWorkload { probe: None, ..ready }, &settings, now), ScaleToZeroStep::ProbeActivator);
    }

    /// A recheck is never at once, and the step at that time is another one or has another recheck.
    #[test]
    fn each_recheck_makes_progress(observed in any_observed(), settings in any_settings(), now in any_time()) {
        let first = next_step(&observed, &settings, now);
        let ScaleToZeroStep::Stay { reason, recheck: Some(recheck) } = first else { return Ok(()) };
        prop_assert!(recheck >= Duration::from_millis(1));
        let later = i64::try_from(recheck.as_millis()).ok().and_then(|rest| now.checked_add(rest));
        let Some(later) = later else { return Ok(()) };
        let observed = ObservedWorkload { seen: later_by(observed.seen, recheck), ..observed };
        let second = next_step(&observed, &settings, later);
        let rechecks_again = matches!(second, ScaleToZeroStep::Stay { recheck: Some(again), .. } if !again.is_zero());
        prop_assert!(second != first || rechecks_again, "{:?}", second);
        // A wait for a time ends at that time, unless the clock steps.
        let by_time = !matches!(reason, StayReason::NotProxied | StayReason::PathNotVerified);
        let starts = [Some(observed.phase_since), observed.proxied_since, observed.demand.and_then(|d| d.idle_since)];
        if by_time && starts.into_iter().flatten().all(|start| start <= now && fits_i64(start, now)) {
            prop_assert!(second != first, "{:?}", second);
            prop_assert!(!matches!(second, ScaleToZeroStep::Stay { reason: same, .. } if same == reason), "{:?}", second);
        }
    }

    /// Being unreachable only shortens the sequence.
    #[test]
    fn unreachable_workload_goes_to_zero_when_a_reachable_one_would(
        observed in any_observed(), settings in any_settings(), now in any_time(),
    ) {
        let reachable = edited(settings.clone(), |s| s.zero.reachability = Reachability::Reachable);
        let unreachable = edited(settings, |s| s.zero.reachability = Reachability::Unreachable);
        if next_step(&observed, &reachable, now) == ScaleToZeroStep::ScaleToZero {
            prop_assert_eq!(next_step(&observed, &unreachable, now), ScaleToZeroStep::ScaleToZero);
        }
    }
}
