//! Golden values of Knative's `pkg/autoscaler/scaling/autoscaler_test.go`.

use super::*;

const T0: Duration = Duration::from_secs(1_600_000_000);

fn at(seconds: u64) -> Duration {
    T0 + Duration::from_secs(seconds)
}

fn averages(stable: f64, panic: f64) -> Option<Averages> {
    Some(Averages { stable, panic })
}

/// Their specs: total is target / 0.75, rates 10, threshold 2, window 60 s.
fn spec(target: f64, target_burst_capacity: f64) -> DeciderSpec {
    DeciderSpec {
        target,
        total: target / 0.75,
        target_burst_capacity,
        max_scale_up_rate: 10.0,
        max_scale_down_rate: 10.0,
        ..DeciderSpec::default()
    }
}

/// A decider made for `ready` pods that decides once, at its creation.
fn decide_once(spec: &DeciderSpec, ready: u32, stable: f64, panic: f64) -> (u32, i32) {
    let mut decider = Decider { panic: PanicMode::starting_with(0, T0), delay: None };
    outcome(&mut decider, spec, ready, stable, panic, T0)
}

fn outcome(
    decider: &mut Decider,
    spec: &DeciderSpec,
    ready: u32,
    stable: f64,
    panic: f64,
    now: Duration,
) -> (u32, i32) {
    let verdict = decider.decide(spec, averages(stable, panic), ready, now).unwrap();
    (verdict.desired, verdict.excess_burst_capacity)
}

#[test]
fn single_decisions() {
    for (ready, stable, panic, target, tbc, expected) in [
        (1, 50.0, 50.0, 10.0, 100.0, (5, -137)),
        (1, 50.0, 10.0, 10.0, 101.0, (5, -98)),
        (1, 100.0, 10.0, 10.0, 101.0, (10, -98)),
        (8, 100.0, 100.0, 10.0, 98.0, (10, -92)),
        (8, 50.0, 50.0, 10.0, 98.0, (5, -42)),
        (1, 1.0, 0.0, 10.0, 75.0, (1, -62)),
        (1, 0.0, 0.0, 10.0, 75.0, (0, -62)),
        (1, 0.0, 0.0, 10.0, 100.0, (0, -87)),
        (1, 21.0, 26.0, 181.0, -1.0, (1, -1)),
        (1, 50.0, 49.0, 10.0, 0.0, (5, 0)),
        (5, 50.0, 50.0, 10.0, 100.0, (5, -84)),
        (1, 50.0, 100.0, 10.0, 84.0, (10, -171)),
        (0, 1000.0, 888.0, 10.0, 81.0, (10, -969)),
        (1, 100.0, 99.0, 10.0, 100.0, (10, -186)),
    ] {
        let got = decide_once(&spec(target, tbc), ready, stable, panic);
        assert_eq!(
            got, expected,
            "{ready} ready, stable {stable}, panic {panic}, target {target}, burst {tbc}"
        );
    }
}

#[test]
fn panic_is_entered_held_moved_and_left() {
    let spec = spec(1.0, 98.0);
    let enter = |decider: &mut Decider| outcome(decider, &spec, 10, 11.0, 25.0, at(0));
    let mut decider = Decider { panic: PanicMode::starting_with(0, T0), delay: None };
    assert_eq!(enter(&mut decider), (25, -110));
    assert_eq!(outcome(&mut decider, &spec, 40, 30.0, 41.0, at(30)), (41, -86));
    assert_eq!(outcome(&mut decider, &spec, 55, 50.0, 56.0, at(62)), (50, -81));
    assert!(!decider.is_panicking());

    enter(&mut decider);
    // 80 pods wanted of 40 is over the threshold again: the panic now lasts from here.
    assert_eq!(outcome(&mut decider, &spec, 40, 30.0, 80.0, at(30)), (80, -125));
    outcome(&mut decider, &spec, 80, 30.0, 30.0, at(90));
    assert!(decider.is_panicking());
}

#[test]
fn while_panicking_the_larger_window_wins_and_nothing_falls() {
    let spec_1 = spec(1.0, 100.0);
    for (stable, panic, expected) in [(50.0, 30.0, (50, -124)), (20.0, 30.0, (30, -124))] {
        let mut decider = Decider { panic: PanicMode::starting_with(5, T0), delay: None };
        assert_eq!(outcome(&mut decider, &spec_1, 5, stable, panic, at(5)), expected);
    }
    let spec_10 = spec(10.0, 93.0);
    let mut decider = Decider { panic: PanicMode::starting_with(0, T0), delay: None };
    assert_eq!(outcome(&mut decider, &spec_10, 1, 100.0, 100.0, at(0)), (10, -180));
    assert_eq!(outcome(&mut decider, &spec_10, 10, 100.0, 1000.0, at(1)), (100, -960));
    assert_eq!(outcome(&mut decider, &spec_10, 10, 1.0, 1.0, at(31)), (100, 39));
    assert_eq!(outcome(&mut decider, &spec_10, 10, 1.0, 1.0, at(62)), (1, 39));
}

#[test]
fn growth_and_decline_are_limited_by_rate() {
    for (ready, stable, panic, expected) in [
        (1, 1000.0, 1001.0, (10, -1049)),
        (10, 1000.0, 1001.0, (100, -929)),
        (100, 1.0, 1.0, (10, 1271)),
        (10, 1.0, 1.0, (1, 71)),
    ] {
        assert_eq!(decide_once(&spec(10.0, 61.0), ready, stable, panic), expected, "{ready} ready, {stable}");
    }
    let slow =
        |up, down| DeciderSpec { max_scale_up_rate: up, max_scale_down_rate: down, ..spec(1.0, 1982.0) };
    assert_eq!(
        decide_once(&slow(1.1, 10.0), 2, 3.0, 3.1).0,
        3,
        "the limit is rounded up, so that growth is possible"
    );
    let down = DeciderSpec { target: 10.0, total: 10.0 / 0.75, ..slow(10.0, 1.1) };
    assert_eq!(decide_once(&down, 100, 1.0, 1.0), (90, -650));
    let unreachable = DeciderSpec { reachable: false, ..down };
    assert_eq!(decide_once(&unreachable, 100, 1.0, 1.0), (1, -650));
}

#[test]
fn exponential_growth_follows_the_rate() {
    for (ready, load, expected) in
        [(1, 6.0, (6, -106)), (6, 36.0, (36, -129)), (36, 216.0, (216, -269)), (216, 1296.0, (1296, -1109))]
    {
        assert_eq!(decide_once(&spec(1.0, 101.0), ready, load, load), expected, "{ready} ready");
    }
}

#[test]
fn activation_scale_applies_to_any_load_but_none() {
    let spec = DeciderSpec { activation_scale: 2, ..spec(10.0, 75.0) };
    assert_eq!(decide_once(&spec, 1, 0.0, 0.0).0, 0);
    assert_eq!(decide_once(&spec, 1, 1.0, 0.0).0, 2);
}

#[test]
fn no_data_is_no_verdict_and_changes_nothing() {
    let spec = spec(10.0, 100.0);
    let mut decider = Decider::new(&spec, 2, T0);
    assert_eq!(decider.decide(&spec, None, 2, at(1000)), None);
    assert!(decider.is_panicking());
}

#[test]
fn a_new_decider_panics_if_several_pods_are_ready() {
    for (ready, panicking) in [(0, false), (1, false), (2, true)] {
        assert_eq!(Decider::new(&spec(10.0, 100.0), ready, T0).is_panicking(), panicking, "{ready}");
    }
}

#[test]
fn a_larger_decision_is_held_for_the_delay() {
    let delayed =
        DeciderSpec { panic_threshold: 100.0, scale_down_delay: Duration::from_secs(300), ..spec(10.0, 0.0) };
    let mut decider = Decider::new(&delayed, 0, T0);
    let mut desired = |seconds, stable, reachable| {
        let spec = DeciderSpec { reachable, ..delayed.clone() };
        outcome(&mut decider, &spec, 0, stable, 0.0, at(seconds)).0
    };
    for (seconds, stable, expected) in [
        (2, 40.0, 4),
        (300, 0.0, 4),
        (302, 0.0, 0),
        (540, 40.0, 4),
        (600, 30.0, 4),
        (660, 0.0, 4),
        (840, 0.0, 3),
        (900, 0.0, 0),
    ] {
        assert_eq!(desired(seconds, stable, true), expected, "{seconds} s");
    }
    desired(1000, 40.0, true);
    assert_eq!(desired(1002, 0.0, false), 0, "an unreachable workload is let go at once");
}

#[test]
fn a_spec_is_what_the_settings_say() {
    let (mut settings, _) =
        Settings::resolve(&crate::config::AutoscalerConfig::default(), &Default::default());
    let target = Target { target: 70.0, total: 100.0 };
    assert_eq!(DeciderSpec::new(&settings, target), DeciderSpec::default());
    settings.reachability = crate::reachability::Reachability::Unreachable;
    assert!(!DeciderSpec::new(&settings, target).reachable);
}
