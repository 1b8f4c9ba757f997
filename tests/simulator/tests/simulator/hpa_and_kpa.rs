//! With the HPA in the loop a workload ends at the size that the pure KPA gives it, and in panic the two never work against
//! each other.
//!
//! Each scenario is played by the KPA alone (the zero-scaler writes every size) and with an HPA, on the average and on the
//! decision itself, at the period of a stock controller and at a third of it. Loads are constant in the end, and half a pod
//! away from the next size: at the very edge the size is a matter of chance, see `oscillation.rs`.

use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::settings::Aggregation;
use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, ServiceTime, settings};

use crate::seconds;

const LENGTH: Duration = minutes(20);

const fn minutes(minutes: u64) -> Duration {
    seconds(60 * minutes)
}

/// So many clients, on pods of 10 that should carry 7; the activator is in the path of up to 4 pods or so.
fn clients(profile: Profile) -> Scenario {
    Scenario {
        load: Load::clients(profile),
        target: 7.0,
        container_concurrency: 10,
        settings: settings(|s| s.target_burst_capacity = 21.0),
        ..Scenario::default()
    }
}

fn constant(level: f64) -> Profile {
    Profile::constant(level)
}

fn play(scenario: &Scenario, scaler: Scaler, hpa_sync_period: Duration) -> Report {
    Scenario { scaler, hpa_sync_period, ..scenario.clone() }.run(LENGTH).unwrap()
}

/// Plays the scenario all ways, twice: the seed also says how the periods of the parts lie to each other.
fn ends_at(size: u32, scenario: Scenario) {
    for seed in [1, 2] {
        all_end_at(size, &Scenario { seed, ..scenario.clone() });
    }
}

/// Everybody ends at `size`.
fn all_end_at(size: u32, scenario: &Scenario) {
    let kpa = play(scenario, Scaler::Direct, seconds(15));
    assert_eq!(kpa.final_size(), size, "the KPA alone\n{kpa}");
    for metric in [HpaMetric::Average, HpaMetric::Desired] {
        for period in [seconds(15), seconds(5)] {
            let hpa = play(scenario, Scaler::Hpa(metric), period);
            assert_eq!(hpa.final_size(), size, "HPA on the {metric:?}, each {period:?}\n{hpa}");
            never_against_each_other(scenario, &hpa);
        }
    }
}

/// The HPA may be ahead of a panicking decider, for its metric is of this second; it is never below it.
fn never_against_each_other(scenario: &Scenario, report: &Report) {
    assert_eq!(report.pulled_below_panic(scenario.max_replicas), [], "below the panic floor\n{report}");
    assert_eq!(report.opposed_in_panic(), 0, "two writers against each other\n{report}");
}

#[test]
fn steady() {
    ends_at(4, clients(constant(24.0)));
}

#[test]
fn ramp_up() {
    ends_at(10, clients(constant(3.0).ramp(minutes(1), minutes(9), 66.0)));
}

#[test]
fn ramp_down() {
    ends_at(3, clients(constant(66.0).ramp(minutes(2), minutes(9), 17.0)));
}

#[test]
fn step_up_by_less_than_a_panic() {
    ends_at(6, clients(constant(24.0).step(minutes(5), 38.0)));
}

#[test]
fn step_up_into_panic() {
    ends_at(11, clients(constant(10.0).step(minutes(5), 73.0)));
}

#[test]
fn step_down() {
    ends_at(2, clients(constant(73.0).step(minutes(5), 10.0)));
}

#[test]
fn burst_with_panic_and_back() {
    let mut scenario = clients(constant(24.0));
    scenario.load = scenario.load.burst(minutes(5), 300);
    let report = play(&scenario, Scaler::Hpa(HpaMetric::Average), seconds(15));
    assert!(report.timeline.iter().any(|sample| sample.panicking && sample.at > minutes(5)), "{report}");
    ends_at(4, scenario);
}

#[test]
fn spikes_that_stop() {
    let mut scenario = clients(constant(24.0));
    for spike in 1..12 {
        scenario.load = scenario.load.burst(seconds(50 * spike), 120);
    }
    ends_at(4, scenario);
}

#[test]
fn from_zero() {
    ends_at(5, Scenario { initial_replicas: 0, ..clients(constant(0.0).step(minutes(1), 31.0)) });
}

#[test]
fn to_zero() {
    ends_at(0, clients(constant(31.0).step(minutes(5), 0.0)));
}

#[test]
fn nobody_calls_a_workload_that_may_not_sleep() {
    ends_at(1, Scenario { scale_to_zero: false, initial_replicas: 6, ..Scenario::default() });
}

#[test]
fn requests_per_second() {
    let scenario = Scenario {
        load: Load::poisson(constant(50.0).step(minutes(5), 70.0)),
        measure: MetricName::RequestsPerSecond,
        target: 20.0,
        container_concurrency: 0,
        service_time: ServiceTime::Exponential(Duration::from_millis(100)),
        ..Scenario::default()
    };
    ends_at(4, scenario);
}

#[test]
fn fractional_targets() {
    // Through the activator, which counts every request: of 51 pods only 12 are asked in a second, and five requests among
    // them are hit or missed.
    let settings = settings(|s| s.target_burst_capacity = -1.0);
    let one_at_a_time = |target| Scenario {
        target,
        container_concurrency: 1,
        settings: settings.clone(),
        ..clients(constant(5.0))
    };
    ends_at(8, one_at_a_time(0.7));
    ends_at(51, one_at_a_time(0.099));
}

#[test]
fn at_the_maximum() {
    ends_at(5, Scenario { max_replicas: 5, container_concurrency: 0, ..clients(constant(94.0)) });
}

#[test]
fn at_the_minimum() {
    ends_at(3, Scenario { min_replicas: 3, ..clients(constant(38.0).step(minutes(5), 3.0)) });
}

#[test]
fn long_requests() {
    let service_time = ServiceTime::Exponential(minutes(2));
    ends_at(4, Scenario { service_time, ..clients(constant(10.0).step(minutes(3), 24.0)) });
}

#[test]
fn short_requests() {
    let service_time = ServiceTime::Constant(Duration::from_millis(100));
    ends_at(3, Scenario { service_time, ..clients(constant(17.0)) });
}

#[test]
fn high_concurrency() {
    let large = Scenario { target: 700.0, container_concurrency: 1000, ..clients(constant(2450.0)) };
    ends_at(4, Scenario { service_time: ServiceTime::Constant(seconds(20)), ..large });
}

#[test]
fn pods_that_take_long_to_start() {
    ends_at(6, Scenario { pod_start: Some(minutes(1)), ..clients(constant(7.0).step(minutes(2), 38.0)) });
}

#[test]
fn activators_always_never_and_now_and_then_in_the_path() {
    for burst_capacity in [-1.0, 0.0, 21.0, 211.0] {
        let settings = settings(|s| s.target_burst_capacity = burst_capacity);
        ends_at(8, Scenario { settings, ..clients(constant(24.0).step(minutes(3), 52.0)) });
    }
}

#[test]
fn several_activators() {
    ends_at(6, Scenario { activators: 3, ..clients(constant(3.0).step(minutes(3), 38.0)) });
}

#[test]
fn newer_seconds_weigh_more() {
    let settings = settings(|s| s.aggregation = Aggregation::WeightedExponential);
    ends_at(6, Scenario { settings, ..clients(constant(24.0).step(minutes(5), 38.0)) });
}

#[test]
fn short_and_long_windows() {
    for window in [6, 300] {
        let settings = settings(|s| s.stable_window = seconds(window));
        ends_at(6, Scenario { settings, ..clients(constant(24.0).step(minutes(3), 38.0)) });
    }
}

/// An average knows nothing of an activation scale. The metric does: it is never less than what is held.
#[test]
fn an_activation_scale_is_kept() {
    let settings = settings(|s| s.activation_scale = 3);
    let few = clients(constant(0.0).step(minutes(1), 2.0));
    let scenario = Scenario { settings, initial_replicas: 0, ..few };
    for scaler in [Scaler::Direct, Scaler::Hpa(HpaMetric::Desired), Scaler::Hpa(HpaMetric::Average)] {
        let report = play(&scenario, scaler, seconds(15));
        assert_eq!((report.changes[0].to, report.final_size()), (3, 3), "{scaler:?}\n{report}");
    }
}

#[test]
fn held_up_by_a_scale_down_delay() {
    let settings = settings(|s| s.scale_down_delay = minutes(2));
    ends_at(2, Scenario { settings, ..clients(constant(52.0).step(minutes(5), 10.0)) });
}
