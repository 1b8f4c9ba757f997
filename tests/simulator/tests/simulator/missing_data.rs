//! Missing data is never zero: without the metrics-adapter no size changes and nobody goes to sleep, but sleepers still wake.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Scaler, Scenario, ServiceTime, Simulation, Writer, settings};

use crate::seconds;

const ALL: [Scaler; 3] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average), Scaler::Hpa(HpaMetric::Desired)];

#[test]
fn a_minute_without_the_adapter_changes_no_size() {
    for scaler in ALL {
        for burst_capacity in [-1.0, 0.0] {
            let scenario = Scenario {
                scaler,
                load: Load::clients(Profile::constant(245.0)),
                service_time: ServiceTime::Constant(Duration::from_millis(2300)),
                settings: settings(|s| s.target_burst_capacity = burst_capacity),
                adapter_outages: vec![seconds(300)..seconds(360)],
                ..Scenario::default()
            };
            let report = scenario.run(seconds(600)).unwrap();
            assert_eq!(report.changes_between(seconds(200), seconds(600)).count(), 0, "{report}");
            assert_eq!(report.final_size(), 4, "{report}");
            assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
        }
    }
}

#[test]
fn nobody_goes_to_sleep_on_silence() {
    for scaler in ALL {
        let scenario = Scenario {
            scaler,
            load: Load::clients(Profile::constant(3.0).step(seconds(100), 0.0)),
            adapter_outages: vec![seconds(130)..seconds(400)],
            ..Scenario::default()
        };
        let report = scenario.run(seconds(700)).unwrap();
        let slept = report.first_at_size(0, Duration::ZERO).unwrap();
        // A new adapter has to watch for a whole window itself.
        assert!(slept >= seconds(400 + 60), "{report}");
    }
}

#[test]
fn sleepers_wake_without_the_adapter() {
    for scaler in ALL {
        let scenario = Scenario {
            scaler,
            initial_replicas: 0,
            load: Load::none().burst(seconds(50), 40),
            adapter_outages: vec![seconds(20)..seconds(300)],
            ..Scenario::default()
        };
        let report = scenario.run(seconds(100)).unwrap();
        assert_eq!((report.served, report.changes[0].writer), (40, Writer::Wake), "{report}");
    }
}

#[test]
fn pods_that_never_start_lose_nothing_before_their_callers_give_up() {
    for scaler in ALL {
        let mut simulation = Simulation::new(Scenario {
            scaler,
            initial_replicas: 0,
            pod_start: None,
            load: Load::none().burst(seconds(10), 500),
            client_timeout: seconds(60),
            ..Scenario::default()
        });
        simulation.run_until(seconds(70)).unwrap();
        let waiting = simulation.report();
        assert_eq!((waiting.held, waiting.refused, waiting.timed_out), (500, 0, 0), "{waiting}");
        simulation.run_until(seconds(71)).unwrap();
        let given_up = simulation.report();
        assert_eq!((given_up.held, given_up.timed_out), (0, 500), "{given_up}");
    }
}
