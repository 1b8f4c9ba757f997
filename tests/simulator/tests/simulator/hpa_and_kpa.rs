//! With an HPA a workload ends at the same size as with the pure KPA, and in panic the HPA and the
//! zero-scaler do not work against each other.
//!
//! Each scenario runs with the KPA alone (the zero-scaler writes every size) and with an HPA, on
//! the average and on the desired size, at the stock sync period and at a third of it. Loads end at
//! a constant level, half a pod away from the next size. At a whole number of pods the size is
//! random, see `oscillation.rs`.

use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::settings::Aggregation;
use autoscaler::settings::BurstCapacity;
use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, ServiceTime, settings};

use crate::seconds;

const LENGTH: Duration = minutes(20);

const fn minutes(minutes: u64) -> Duration {
    seconds(60 * minutes)
}

/// Clients for pods with a container concurrency of 10 and a target of 7. The activators are in the
/// path up to about 4 pods.
fn clients(profile: Profile) -> Scenario {
    Scenario {
        load: Load::clients(profile),
        target: 7.0,
        container_concurrency: 10,
        settings: settings(|s| s.target.burst_capacity = BurstCapacity::from(21.0)),
        ..Scenario::default()
    }
}

fn constant(level: f64) -> Profile {
    Profile::constant(level)
}

fn run(scenario: &Scenario, scaler: Scaler, hpa_sync_period: Duration) -> Report {
    Scenario { scaler, hpa_sync_period, ..scenario.clone() }.run(LENGTH).unwrap()
}

/// Runs all scalers with two seeds, because the seed determines the phases of the periodic events.
fn assert_final_size(size: u32, scenario: Scenario) {
    for seed in [1, 2] {
        assert_final_size_with_seed(size, &Scenario { seed, ..scenario.clone() });
    }
}

/// Asserts that all scalers end at `size`.
fn assert_final_size_with_seed(size: u32, scenario: &Scenario) {
    let kpa = run(scenario, Scaler::Direct, seconds(15));
    assert_eq!(kpa.final_size(), size, "without HPA\n{kpa}");
    for metric in [HpaMetric::Average, HpaMetric::Desired] {
        for period in [seconds(15), seconds(5)] {
            let hpa = run(scenario, Scaler::Hpa(metric), period);
            assert_eq!(hpa.final_size(), size, "HPA on {metric:?} every {period:?}\n{hpa}");
            assert_no_conflict_in_panic(scenario, &hpa);
        }
    }
}

/// The HPA may be ahead of a decider in panic, because its metric is newer. It is never below.
fn assert_no_conflict_in_panic(scenario: &Scenario, report: &Report) {
    assert_eq!(
        report.pulled_below_panic(scenario.max_replicas),
        [],
        "HPA below the desired size in panic\n{report}"
    );
    assert_eq!(report.opposed_in_panic(), 0, "HPA and zero-scaler reverted each other\n{report}");
}

#[test]
fn same_size_for_steady_load() {
    assert_final_size(4, clients(constant(24.0)));
}

#[test]
fn same_size_after_ramp_up() {
    assert_final_size(10, clients(constant(3.0).ramp(minutes(1), minutes(9), 66.0)));
}

#[test]
fn same_size_after_ramp_down() {
    assert_final_size(3, clients(constant(66.0).ramp(minutes(2), minutes(9), 17.0)));
}

#[test]
fn same_size_after_step_up_without_panic() {
    assert_final_size(6, clients(constant(24.0).step(minutes(5), 38.0)));
}

#[test]
fn same_size_after_step_up_with_panic() {
    assert_final_size(11, clients(constant(10.0).step(minutes(5), 73.0)));
}

#[test]
fn same_size_after_step_down() {
    assert_final_size(2, clients(constant(73.0).step(minutes(5), 10.0)));
}

#[test]
fn same_size_after_burst_with_panic() {
    let mut scenario = clients(constant(24.0));
    scenario.load = scenario.load.burst(minutes(5), 300);
    let report = run(&scenario, Scaler::Hpa(HpaMetric::Average), seconds(15));
    assert!(report.timeline.iter().any(|sample| sample.panicking && sample.at > minutes(5)), "{report}");
    assert_final_size(4, scenario);
}

#[test]
fn same_size_after_repeated_bursts() {
    let mut scenario = clients(constant(24.0));
    for spike in 1..12 {
        scenario.load = scenario.load.burst(seconds(50 * spike), 120);
    }
    assert_final_size(4, scenario);
}

#[test]
fn same_size_from_zero() {
    assert_final_size(5, Scenario { initial_replicas: 0, ..clients(constant(0.0).step(minutes(1), 31.0)) });
}

#[test]
fn both_scale_to_zero() {
    assert_final_size(0, clients(constant(31.0).step(minutes(5), 0.0)));
}

#[test]
fn both_end_at_one_pod_without_scale_to_zero_and_requests() {
    assert_final_size(1, Scenario { scale_to_zero: false, initial_replicas: 6, ..Scenario::default() });
}

#[test]
fn same_size_for_requests_per_second() {
    let scenario = Scenario {
        load: Load::poisson(constant(50.0).step(minutes(5), 70.0)),
        measure: MetricName::RequestsPerSecond,
        target: 20.0,
        container_concurrency: 0,
        service_time: ServiceTime::Exponential(Duration::from_millis(100)),
        ..Scenario::default()
    };
    assert_final_size(4, scenario);
}

#[test]
fn same_size_for_fractional_targets() {
    // All requests pass the activator, which counts each of them. A scrape reads only 12 of 51
    // pods, so it would miss most of the five requests or count them several times.
    let settings = settings(|s| s.target.burst_capacity = BurstCapacity::from(-1.0));
    let one_at_a_time = |target| Scenario {
        target,
        container_concurrency: 1,
        settings: settings.clone(),
        ..clients(constant(5.0))
    };
    assert_final_size(8, one_at_a_time(0.7));
    assert_final_size(51, one_at_a_time(0.099));
}

#[test]
fn same_size_at_the_maximum() {
    assert_final_size(5, Scenario { max_replicas: 5, container_concurrency: 0, ..clients(constant(94.0)) });
}

#[test]
fn same_size_at_the_minimum() {
    assert_final_size(3, Scenario { min_replicas: 3, ..clients(constant(38.0).step(minutes(5), 3.0)) });
}

#[test]
fn same_size_for_long_requests() {
    let service_time = ServiceTime::Exponential(minutes(2));
    assert_final_size(4, Scenario { service_time, ..clients(constant(10.0).step(minutes(3), 24.0)) });
}

#[test]
fn same_size_for_short_requests() {
    let service_time = ServiceTime::Constant(Duration::from_millis(100));
    assert_final_size(3, Scenario { service_time, ..clients(constant(17.0)) });
}

#[test]
fn same_size_for_high_concurrency() {
    let large = Scenario { target: 700.0, container_concurrency: 1000, ..clients(constant(2450.0)) };
    assert_final_size(4, Scenario { service_time: ServiceTime::Constant(seconds(20)), ..large });
}

#[test]
fn same_size_for_slow_pod_starts() {
    assert_final_size(
        6,
        Scenario { pod_start: Some(minutes(1)), ..clients(constant(7.0).step(minutes(2), 38.0)) },
    );
}

#[test]
fn same_size_for_any_target_burst_capacity() {
    for burst_capacity in [-1.0, 0.0, 21.0, 211.0] {
        let settings = settings(|s| s.target.burst_capacity = BurstCapacity::from(burst_capacity));
        assert_final_size(8, Scenario { settings, ..clients(constant(24.0).step(minutes(3), 52.0)) });
    }
}

#[test]
fn same_size_with_several_activators() {
    assert_final_size(6, Scenario { activators: 3, ..clients(constant(3.0).step(minutes(3), 38.0)) });
}

#[test]
fn same_size_for_weighted_aggregation() {
    let settings = settings(|s| s.window.aggregation = Aggregation::WeightedExponential);
    assert_final_size(6, Scenario { settings, ..clients(constant(24.0).step(minutes(5), 38.0)) });
}

#[test]
fn same_size_for_short_and_long_windows() {
    for window in [6, 300] {
        let settings = settings(|s| s.window.stable = seconds(window));
        assert_final_size(6, Scenario { settings, ..clients(constant(24.0).step(minutes(3), 38.0)) });
    }
}

/// The average does not include the activation scale. The metric does, by its floor.
#[test]
fn both_keep_the_activation_scale() {
    let settings = settings(|s| s.scale.activation = 3);
    let few = clients(constant(0.0).step(minutes(1), 2.0));
    let scenario = Scenario { settings, initial_replicas: 0, ..few };
    for scaler in [Scaler::Direct, Scaler::Hpa(HpaMetric::Desired), Scaler::Hpa(HpaMetric::Average)] {
        let report = run(&scenario, scaler, seconds(15));
        assert_eq!((report.changes[0].to, report.final_size()), (3, 3), "{scaler:?}\n{report}");
    }
}

#[test]
fn same_size_during_a_scale_down_delay() {
    let settings = settings(|s| s.scale.down_delay = minutes(2));
    assert_final_size(2, Scenario { settings, ..clients(constant(52.0).step(minutes(5), 10.0)) });
}
