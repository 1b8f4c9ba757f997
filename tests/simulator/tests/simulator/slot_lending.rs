//! Several activators in front of pods that take one request at a time: no pod stays idle while a request waits.
//!
//! Each activator has its share of the pods. Without a word between them one may hold requests while another's pods have
//! nothing to do, for as long as the luck of the draw lasts; so they lend.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, ServiceTime, settings};

use crate::seconds;

/// What a message between activators takes.
const MESSAGE: Duration = Duration::from_millis(1);

/// Ten pods of one request each, all of whose requests come through activators.
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
        settings: settings(|s| s.target_burst_capacity = -1.0),
        ..Scenario::default()
    }
}

fn clients(count: f64) -> Load {
    Load::clients(Profile::constant(count))
}

fn run(scenario: Scenario) -> Report {
    scenario.run(seconds(300)).unwrap()
}

/// At most two messages for each activator: the bound that the slot lending promises.
fn promised(activators: usize) -> Duration {
    2 * MESSAGE * u32::try_from(activators).unwrap()
}

#[test]
fn no_pod_is_idle_while_a_request_waits() {
    for activators in [1, 2, 3, 5] {
        for load in [clients(5.0), clients(10.0), clients(30.0), Load::poisson(Profile::constant(18.0))] {
            let report = run(ten_pods(activators, load.clone()));
            let bound = promised(activators);
            assert!(report.longest_idle <= bound, "{activators} activators, {load:?}\n{report}");
            assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
        }
    }
}

/// As many clients as pods, so everybody has one; but clients pick activators, not pods.
#[test]
fn without_lending_pods_are_idle_for_seconds() {
    let lending = run(ten_pods(3, clients(10.0)));
    let alone = run(Scenario { lending: false, ..ten_pods(3, clients(10.0)) });
    assert!(alone.longest_idle > seconds(1), "{alone}");
    assert!(
        lending.served > alone.served + alone.served / 10,
        "{} and {}\n{alone}",
        lending.served,
        alone.served
    );
}

#[test]
fn nobody_waits_longer_than_in_one_queue() {
    let load = Load::poisson(Profile::constant(17.0));
    let one = run(ten_pods(1, load.clone()));
    for activators in [2, 5] {
        let several = run(ten_pods(activators, load.clone()));
        let (expected, got) = (one.latencies.quantile(0.99), several.latencies.quantile(0.99));
        assert!(got <= expected + expected / 10, "{activators} activators: {got:?} instead of {expected:?}");
    }
}

#[test]
fn pods_that_come_and_go_are_shared_anew() {
    for scaler in [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)] {
        let load = Load::clients(
            Profile::constant(2.0).ramp(seconds(30), seconds(150), 25.0).step(seconds(200), 5.0),
        );
        let scenario = Scenario { scaler, min_replicas: 1, max_replicas: 100, ..ten_pods(3, load) };
        let report = run(scenario);
        assert!(report.longest_idle <= promised(3), "{report}");
        assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
    }
}
