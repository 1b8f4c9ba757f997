//! Several activators in front of pods with a container concurrency of 1: no pod stays idle while a
//! request waits.
//!
//! Each activator has a share of the pods. Without lending, one activator may hold requests while
//! pods of another one are idle, because requests select an activator at random.

use autoscaler::settings::BurstCapacity;
use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, ServiceTime, settings};

use crate::seconds;

/// Latency of a message between activators.
const MESSAGE: Duration = Duration::from_millis(1);

/// Ten pods with one slot each; all requests pass activators.
fn ten_pods(activators: usize, load: Load) -> Scenario {
    Scenario {
        activators,
        load,
        container_concurrency: 1,
        target: 0.7,
        initial_replicas: 10,
        min_replicas: 10,
        max_replicas: 10,
        scale_to_zero: false,
        service_time: ServiceTime::Exponential(Duration::from_millis(500)),
        settings: settings(|s| s.target.burst_capacity = BurstCapacity::from(-1.0)),
        ..Scenario::default()
    }
}

fn clients(count: f64) -> Load {
    Load::clients(Profile::constant(count))
}

fn run(scenario: Scenario) -> Report {
    scenario.run(seconds(300)).unwrap()
}

/// The bound of slot lending: two messages per activator.
fn idle_bound(activators: usize) -> Duration {
    2 * MESSAGE * u32::try_from(activators).unwrap()
}

#[test]
fn no_pod_is_idle_while_a_request_is_held() {
    for activators in [1, 2, 3, 5] {
        for load in [clients(5.0), clients(10.0), clients(30.0), Load::poisson(Profile::constant(18.0))] {
            let report = run(ten_pods(activators, load.clone()));
            let bound = idle_bound(activators);
            assert!(report.longest_idle <= bound, "{activators} activators, {load:?}\n{report}");
            assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
        }
    }
}

/// There are as many clients as pods, but clients select activators, not pods.
#[test]
fn pods_are_idle_for_seconds_without_lending() {
    let lending = run(ten_pods(3, clients(10.0)));
    let alone = run(Scenario { lending: false, ..ten_pods(3, clients(10.0)) });
    assert!(alone.longest_idle > seconds(1), "{alone}");
    assert!(
        lending.served > alone.served + alone.served / 10,
        "served {} with lending, {} without\n{alone}",
        lending.served,
        alone.served
    );
}

#[test]
fn latency_is_that_of_a_single_queue() {
    let load = Load::poisson(Profile::constant(17.0));
    let one = run(ten_pods(1, load.clone()));
    for activators in [2, 5] {
        let several = run(ten_pods(activators, load.clone()));
        let (expected, got) = (one.latencies.quantile(0.99), several.latencies.quantile(0.99));
        assert!(got <= expected + expected / 10, "{activators} activators: {got:?} instead of {expected:?}");
    }
}

#[test]
fn changed_pods_are_shared_among_activators_again() {
    for scaler in [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)] {
        let load = Load::clients(
            Profile::constant(2.0).ramp(seconds(30), seconds(150), 25.0).step(seconds(200), 5.0),
        );
        let scenario = Scenario { scaler, min_replicas: 1, max_replicas: 100, ..ten_pods(3, load) };
        let report = run(scenario);
        assert!(report.longest_idle <= idle_bound(3), "{report}");
        assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
    }
}
