//! Golden values of Knative's `pkg/autoscaler/scaling/autoscaler_test.go`.
//!
//! Its comparison allows a difference of 1 in the excess burst capacity; here it is exact. Two of
//! its cases have no counterpart. A failing list of pods (D40) never reaches a decider. There is no
//! status before the first decision (excess 8 of 2 initial pods): without data there is no
//! decision, and the activator stays where it is. The choice of changes to publish (`sameSign`) is
//! not tested here: every change is published.

use super::*;
use crate::scaling::metric_target::MetricTarget;
use crate::settings::Settings;

const T0: Duration = Duration::from_secs(1_600_000_000);

fn at(seconds: u64) -> Duration {
    T0 + Duration::from_secs(seconds)
}

/// Knative's specs: total is target / 0.75, rates 10, threshold 2, window 60 s.
fn spec(target: f64, target_burst_capacity: f64) -> DeciderSpec {
    DeciderSpec {
        target,
        total: target / 0.75,
        target_burst_capacity: target_burst_capacity.into(),
        max_scale_up_rate: 10.0,
        max_scale_down_rate: 10.0,
        ..DeciderSpec::default()
    }
}

/// A decider created while no pod was ready, so it does not start in panic.
fn calm() -> Decider {
    Decider::new(&DeciderSpec::default(), 0, T0)
}

/// Desired pods and excess burst capacity.
fn decide(
    decider: &mut Decider,
    spec: &DeciderSpec,
    ready: u32,
    stable: f64,
    panic: f64,
    now: Duration,
) -> (u32, i32) {
    let result = decider.decide(spec, Some(WindowAverages { stable, panic }), ready, now).unwrap();
    (result.desired, result.excess_burst_capacity)
}

/// The decision of a decider without history.
fn decide_once(spec: &DeciderSpec, ready: u32, stable: f64, panic: f64) -> (u32, i32) {
    decide(&mut calm(), spec, ready, stable, panic, T0)
}

#[test]
fn single_decisions() {
    for (row, ready, stable, panic, target, tbc, expected) in [
        ("D1", 1, 50.0, 50.0, 10.0, 100.0, (5, -137)),
        ("D2", 1, 50.0, 10.0, 10.0, 101.0, (5, -98)),
        ("D3", 1, 100.0, 10.0, 10.0, 101.0, (10, -98)),
        ("D8", 8, 100.0, 100.0, 10.0, 98.0, (10, -92)),
        ("D10", 1, 1.0, 0.0, 10.0, 75.0, (1, -62)),
        ("D18", 1, 0.0, 0.0, 10.0, 100.0, (0, -87)),
        ("D19", 1, 21.0, 26.0, 181.0, -1.0, (1, -1)),
        ("D20", 1, 50.0, 49.0, 10.0, 0.0, (5, 0)),
        ("D23", 5, 50.0, 50.0, 10.0, 100.0, (5, -84)),
        ("D27", 1, 50.0, 100.0, 10.0, 84.0, (10, -171)),
        ("D36", 0, 1000.0, 888.0, 10.0, 81.0, (10, -969)),
        // Decisions on requests per second are the same.
        ("D37", 1, 100.0, 99.0, 10.0, 100.0, (10, -186)),
    ] {
        assert_eq!(decide_once(&spec(target, tbc), ready, stable, panic), expected, "{row}");
    }
}

#[test]
fn panic_starts_at_the_threshold() {
    let panics = |pods_wanted| {
        let mut decider = calm();
        decide(&mut decider, &spec(10.0, 100.0), 2, 0.0, 10.0 * pods_wanted, T0);
        decider.is_panicking()
    };
    assert!(panics(4.0));
    assert!(!panics(3.0));
    let mut decider = calm();
    decide(&mut decider, &spec(10.0, 100.0), 1, 50.0, 50.0, T0);
    assert!(decider.is_panicking(), "D1");
}

#[test]
fn desired_pods_fall_with_the_load() {
    let mut decider = calm();
    assert_eq!(decide(&mut decider, &spec(10.0, 98.0), 8, 100.0, 100.0, at(0)), (10, -92)); // D8
    assert_eq!(decide(&mut decider, &spec(10.0, 98.0), 8, 50.0, 50.0, at(2)), (5, -42)); // D9
    let mut decider = calm();
    assert_eq!(decide(&mut decider, &spec(10.0, 75.0), 1, 1.0, 0.0, at(0)), (1, -62)); // D10
    assert_eq!(decide(&mut decider, &spec(10.0, 75.0), 1, 0.0, 0.0, at(2)), (0, -62)); // D11
}

#[test]
fn panic_starts_holds_extends_and_ends() {
    let spec = spec(1.0, 98.0);
    let enter = |decider: &mut Decider| decide(decider, &spec, 10, 11.0, 25.0, at(0));
    let mut decider = calm();
    assert_eq!(enter(&mut decider), (25, -110)); // D4
    assert_eq!(decide(&mut decider, &spec, 40, 30.0, 41.0, at(30)), (41, -86)); // D5
    assert_eq!(decider.calm_since(), Some(at(0)), "D5: not over the threshold again");
    assert_eq!(decide(&mut decider, &spec, 55, 50.0, 56.0, at(62)), (50, -81)); // D6
    assert_eq!(decider.calm_since(), None);

    enter(&mut decider);
    assert_eq!(decide(&mut decider, &spec, 40, 30.0, 80.0, at(30)), (80, -125)); // D7
    assert_eq!(decider.calm_since(), Some(at(30)), "D7: 80 pods wanted of 40");
    decide(&mut decider, &spec, 80, 30.0, 30.0, at(90));
    assert!(decider.is_panicking(), "it lasts for a whole stable window");
    decide(&mut decider, &spec, 80, 30.0, 30.0, at(90) + Duration::from_millis(1));
    assert!(!decider.is_panicking());
}

#[test]
fn activation_scale_applies_to_any_load_above_zero() {
    let spec = DeciderSpec { activation_scale: 2, ..spec(10.0, 75.0) };
    let mut decider = calm();
    assert_eq!(decide(&mut decider, &spec, 1, 0.0, 0.0, at(0)), (0, -62)); // D12
    assert_eq!(decide(&mut decider, &spec, 1, 1.0, 0.0, at(2)), (2, -62)); // D12
    // A load that needs as many pods is not raised.
    assert_eq!(decide_once(&spec, 1, 20.0, 0.0).0, 2);
    assert_eq!(decide_once(&spec, 1, 30.0, 0.0).0, 3);
}

#[test]
fn scale_up_is_exponential_with_the_rate() {
    let mut decider = calm();
    for (row, second, ready, load, expected) in [
        ("D13", 0, 1, 6.0, (6, -106)),
        ("D14", 1, 6, 36.0, (36, -129)),
        ("D15", 2, 36, 216.0, (216, -269)),
        ("D16", 3, 216, 1296.0, (1296, -1109)),
        ("D17", 4, 1296, 1296.0, (1296, 331)),
    ] {
        let got = decide(&mut decider, &spec(1.0, 101.0), ready, load, load, at(second));
        assert_eq!(got, expected, "{row}");
    }
}

#[test]
fn panic_uses_the_larger_window() {
    for (row, stable, panic, expected) in [("D21", 50.0, 30.0, (50, -124)), ("D22", 20.0, 30.0, (30, -124))] {
        // Five pods are ready: the decider starts in panic with a maximum of five.
        let mut decider = Decider::new(&spec(1.0, 100.0), 5, at(0));
        let got = decide(&mut decider, &spec(1.0, 100.0), 5, stable, panic, at(5));
        assert_eq!(got, expected, "{row}");
    }
}

#[test]
fn desired_pods_never_fall_in_panic() {
    let spec = spec(10.0, 93.0);
    let mut decider = calm();
    assert_eq!(decide(&mut decider, &spec, 1, 100.0, 100.0, at(0)), (10, -180)); // D28
    assert_eq!(decide(&mut decider, &spec, 10, 100.0, 1000.0, at(1)), (100, -960)); // D29
    assert_eq!(decide(&mut decider, &spec, 10, 1.0, 1.0, at(31)), (100, 39)); // D30
    assert_eq!(decide(&mut decider, &spec, 10, 1.0, 1.0, at(62)), (1, 39)); // D31
    assert_eq!(
        decide(&mut decider, &spec, 10, 11.0, 200.0, at(63)),
        (20, -160),
        "a new panic does not hold the old maximum"
    );
}

#[test]
fn rates_limit_scale_up_and_scale_down() {
    let slow = |target, up, down| DeciderSpec {
        max_scale_up_rate: up,
        max_scale_down_rate: down,
        ..spec(target, 1982.0)
    };
    // Rounded up, so that growth is possible.
    assert_eq!(decide_once(&slow(1.0, 1.1, 10.0), 2, 3.0, 3.1), (3, -1983)); // D24
    let down = slow(10.0, 10.0, 1.1);
    assert_eq!(decide_once(&down, 100, 1.0, 1.0), (90, -650)); // D25
    let unreachable = DeciderSpec { reachable: false, ..down };
    assert_eq!(decide_once(&unreachable, 100, 1.0, 1.0), (1, -650)); // D26
    for (row, ready, stable, panic, expected) in [
        ("D32", 1, 1000.0, 1001.0, (10, -1049)),
        ("D33", 10, 1000.0, 1001.0, (100, -929)),
        ("D34", 100, 1.0, 1.0, (10, 1271)),
        ("D35", 10, 1.0, 1.0, (1, 71)),
    ] {
        assert_eq!(decide_once(&spec(10.0, 61.0), ready, stable, panic), expected, "{row}");
    }
}

#[test]
fn new_target_applies_to_the_next_decision() {
    let mut decider = calm();
    decide(&mut decider, &spec(10.0, 71.0), 10, 100.0, 101.0, at(0));
    assert_eq!(decide(&mut decider, &spec(1.0, 71.0), 10, 100.0, 101.0, at(2)), (100, -159)); // D38: 10 before
}

#[test]
fn no_data_gives_no_decision_and_keeps_the_state() {
    let spec = spec(10.0, 100.0);
    let mut decider = Decider::new(&spec, 2, T0);
    assert_eq!(decider.decide(&spec, None, 2, at(1000)), None); // D39
    assert!(decider.is_panicking());
}

#[test]
fn not_a_number_counts_as_no_data() {
    let usual = spec(10.0, 100.0);
    let no_target = DeciderSpec { target: 0.0, ..usual.clone() };
    let mut decider = Decider::new(&usual, 2, T0);
    for (spec, stable, panic) in [(&usual, f64::NAN, 1.0), (&usual, 1.0, f64::NAN), (&no_target, 0.0, 1.0)] {
        assert_eq!(decider.decide(spec, Some(WindowAverages { stable, panic }), 2, at(1000)), None);
        assert!(decider.is_panicking());
    }
}

#[test]
fn no_data_counts_as_zero_when_activator_is_always_in_path() {
    let always_in_the_path = spec(10.0, -1.0);
    let result = calm().decide(&always_in_the_path, None, 1, T0).unwrap(); // C5
    assert_eq!((result.desired, result.averages), (0, WindowAverages { stable: 0.0, panic: 0.0 }));
}

#[test]
fn spare_capacity_not_a_number_puts_activator_in_path() {
    let endless = DeciderSpec { total: f64::INFINITY, ..spec(10.0, 100.0) };
    assert_eq!(decide_once(&endless, 1, 0.0, 0.0).1, i32::MAX);
    assert_eq!(decide_once(&endless, 0, 0.0, 0.0).1, i32::MIN, "0 pods of infinite capacity is not a number");
}

#[test]
fn new_decider_panics_if_several_pods_are_ready() {
    for (ready, panicking) in [(0, false), (1, false), (2, true)] {
        let mut decider = Decider::new(&spec(10.0, 100.0), ready, T0);
        assert_eq!(decider.is_panicking(), panicking, "{ready}");
        // The panic holds as many pods as were ready.
        assert_eq!(
            decide(&mut decider, &spec(10.0, 100.0), 1, 0.0, 0.0, at(60)).0,
            if panicking { ready } else { 0 }
        );
    }
}

/// Knative's delay of five minutes, with a panic threshold that no load exceeds.
fn delayed() -> DeciderSpec {
    DeciderSpec { panic_threshold: 100.0, scale_down_delay: Duration::from_secs(300), ..spec(10.0, 0.0) }
}

#[test]
fn scale_down_delay_holds_the_larger_decision() {
    let mut decider = Decider::new(&delayed(), 0, T0);
    for (row, second, stable, expected) in [
        ("L1", 2, 40.0, 4),
        ("L2", 300, 0.0, 4),
        ("L3", 302, 0.0, 0),
        ("L4", 540, 40.0, 4),
        ("L5", 600, 30.0, 4),
        ("L6", 660, 0.0, 4),
        ("L7", 840, 0.0, 3),
        ("L8", 900, 0.0, 0),
    ] {
        assert_eq!(decide(&mut decider, &delayed(), 0, stable, 0.0, at(second)).0, expected, "{row}");
    }
}

#[test]
fn unreachable_workload_scales_down_without_delay() {
    let mut decider = Decider::new(&delayed(), 0, T0);
    assert_eq!(decide(&mut decider, &delayed(), 0, 40.0, 0.0, at(2)).0, 4); // L1
    let unreachable = DeciderSpec { reachable: false, ..delayed() };
    assert_eq!(decide(&mut decider, &unreachable, 0, 0.0, 0.0, at(4)).0, 0); // L9
}

#[test]
fn zero_delay_holds_no_decision_within_a_slot() {
    let spec = DeciderSpec { scale_down_delay: Duration::ZERO, ..delayed() };
    let mut decider = Decider::new(&spec, 0, T0);
    assert_eq!(decide(&mut decider, &spec, 0, 40.0, 0.0, T0).0, 4); // L10
    assert_eq!(decide(&mut decider, &spec, 0, 20.0, 0.0, T0 + Duration::from_millis(500)).0, 2); // L10
}

#[test]
fn scale_down_delay_holds_the_decision_of_a_panic() {
    let spec = DeciderSpec { panic_threshold: 2.0, ..delayed() };
    let mut decider = Decider::new(&spec, 0, T0);
    assert_eq!(decide(&mut decider, &spec, 1, 10.0, 60.0, at(2)).0, 6);
    assert_eq!(decide(&mut decider, &spec, 6, 0.0, 0.0, at(100)).0, 6, "calm, but held");
    assert!(!decider.is_panicking());
    assert_eq!(decide(&mut decider, &spec, 6, 0.0, 0.0, at(302)).0, 0);
}

#[test]
fn activators_stay_for_a_target_far_below_the_limit_of_the_pods() {
    let excess = |target, total| {
        let spec = DeciderSpec { target, total, ..DeciderSpec::default() };
        decide(&mut calm(), &spec, 5, 48.0, 48.0, at(0)).1
    };
    // Five pods of 13.96, and Knative's 211.
    assert_eq!(excess(9.77, 30.0), -190);
    // The same pods without a limit.
    assert_eq!(excess(9.77, 9.77 / 0.7), -190);
    // A target that is a share of the limit: five pods of 30, with 8.2 free in each.
    assert_eq!(excess(21.0, 30.0), 60);
    // A target above that share states another utilization.
    assert_eq!(excess(27.0, 30.0), 60);
}

#[test]
fn spec_is_derived_from_settings() {
    let (mut settings, _) =
        Settings::resolve(&crate::settings::AutoscalerConfig::default(), &Default::default());
    let target = MetricTarget { target: 70.0, total: 100.0 };
    assert_eq!(DeciderSpec::new(&settings, target), DeciderSpec::default());
    settings.zero.reachability = crate::settings::Reachability::Unreachable;
    assert!(!DeciderSpec::new(&settings, target).reachable);
}
