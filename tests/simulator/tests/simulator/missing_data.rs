//! Missing data is never zero: without the metrics-adapter no size changes, no workload is scaled
//! to zero, and workloads at zero still scale up.

use autoscaler::settings::BurstCapacity;
use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Scaler, Scenario, ServiceTime, Simulation, Writer, settings};

use crate::seconds;

const SCALERS: [Scaler; 3] =
    [Scaler::Direct, Scaler::Hpa(HpaMetric::Average), Scaler::Hpa(HpaMetric::Desired)];

#[test]
fn keeps_size_during_a_minute_without_adapter() {
    for scaler in SCALERS {
        for burst_capacity in [-1.0, 0.0] {
            let scenario = Scenario {
                scaler,
                load: Load::clients(Profile::constant(245.0)),
                service_time: ServiceTime::Constant(Duration::from_millis(2300)),
                settings: settings(|s| s.target.burst_capacity = BurstCapacity::from(burst_capacity)),
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
fn does_not_scale_to_zero_without_data() {
    for scaler in SCALERS {
        let scenario = Scenario {
            scaler,
            load: Load::clients(Profile::constant(3.0).step(seconds(100), 0.0)),
            adapter_outages: vec![seconds(130)..seconds(400)],
            ..Scenario::default()
        };
        let report = scenario.run(seconds(700)).unwrap();
        let zero_at = report.first_at_size(0, Duration::ZERO).unwrap();
        // A new adapter has to observe a whole window itself.
        assert!(zero_at >= seconds(400 + 60), "{report}");
    }
}

#[test]
fn scales_from_zero_without_adapter() {
    for scaler in SCALERS {
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
fn holds_requests_until_client_timeout_if_pods_never_start() {
    for scaler in SCALERS {
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
        let expired = simulation.report();
        assert_eq!((expired.held, expired.timed_out), (0, 500), "{expired}");
    }
}
