//! To zero and back: a workload without requests is scaled to zero, the first request scales it up,
//! and no request is lost.

use autoscaler::settings::BurstCapacity;
use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, Writer, settings};

use crate::seconds;

const SCALERS: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];
/// All requests of the clients have ended by then.
const TRAFFIC_END: Duration = seconds(121);

/// Three clients for two minutes. `burst_capacity` -1 keeps the activators in the path; 0 removes
/// them while pods are ready.
fn two_minutes_of_traffic(scaler: Scaler, burst_capacity: f64) -> Scenario {
    Scenario {
        scaler,
        load: Load::clients(Profile::constant(3.0).step(seconds(120), 0.0)),
        settings: settings(|s| s.target.burst_capacity = BurstCapacity::from(burst_capacity)),
        ..Scenario::default()
    }
}

fn time_of_zero(report: &Report) -> Duration {
    report.first_at_size(0, Duration::ZERO).unwrap_or_else(|| panic!("never scaled to zero\n{report}"))
}

fn assert_all_served(report: &Report) {
    assert_eq!(report.served, report.arrived, "{report}");
}

#[test]
fn scales_to_zero_after_window_and_grace_period() {
    for scaler in SCALERS {
        let proxied = two_minutes_of_traffic(scaler, -1.0).run(seconds(600)).unwrap();
        let served = two_minutes_of_traffic(scaler, 0.0).run(seconds(600)).unwrap();
        for (report, wait) in [(proxied, seconds(60)), (served, seconds(90))] {
            let delay = time_of_zero(&report) - TRAFFIC_END;
            assert!(
                delay >= wait && delay <= wait + seconds(7),
                "after {delay:?} instead of {wait:?}\n{report}"
            );
            assert_eq!(report.changes.last().unwrap().writer, Writer::Idle, "{report}");
            assert_eq!(report.final_size(), 0);
            assert_all_served(&report);
        }
    }
}

#[test]
fn scales_up_for_the_first_request_and_to_zero_again() {
    for scaler in SCALERS {
        let mut scenario = two_minutes_of_traffic(scaler, 0.0);
        scenario.load = scenario.load.burst(seconds(600), 1);
        let report = scenario.run(seconds(1200)).unwrap();
        let sizes: Vec<_> = report.changes.iter().map(|change| (change.to, change.writer)).collect();
        assert_eq!(sizes, [(0, Writer::Idle), (1, Writer::Wake), (0, Writer::Idle)], "{report}");
        assert!(
            report.latencies.longest() <= Duration::from_millis(6020),
            "longer than pod start and service time\n{report}"
        );
        assert_all_served(&report);
    }
}

#[test]
fn request_in_the_grace_period_restarts_the_window() {
    for scaler in SCALERS {
        let mut scenario = two_minutes_of_traffic(scaler, 0.0);
        // After the window, with activators in the path, before the end of the grace period.
        scenario.load = scenario.load.burst(seconds(200), 1);
        let report = scenario.run(seconds(600)).unwrap();
        assert!(time_of_zero(&report) >= seconds(200 + 1 + 60 + 30), "{report}");
        assert!(
            report.latencies.longest() <= Duration::from_millis(1010),
            "the request should use the running pod\n{report}"
        );
        assert_all_served(&report);
    }
}

/// The last check and the write are milliseconds apart, as are a request and the activator's
/// report. In either order the request gets a response, from the last pod or from a new one.
#[test]
fn serves_request_that_arrives_during_the_write_of_zero() {
    for scaler in SCALERS {
        let quiet = two_minutes_of_traffic(scaler, 0.0).run(seconds(600)).unwrap();
        let zero = time_of_zero(&quiet);
        for millis in 0..60 {
            let mut scenario = two_minutes_of_traffic(scaler, 0.0);
            let at = zero + Duration::from_millis(millis) - Duration::from_millis(30);
            scenario.load = scenario.load.burst(at, 1);
            let report = scenario.run(zero + seconds(30)).unwrap();
            assert!(report.latencies.longest() <= Duration::from_millis(6100), "at {at:?}\n{report}");
            assert_all_served(&report);
        }
    }
}

/// Half of the pods that are ready is one pod, which neither writer removes.
#[test]
fn reaches_zero_from_more_than_one_pod_at_the_minimum() {
    for scaler in SCALERS {
        for min_replicas in [2, 5] {
            let scenario = Scenario { min_replicas, ..two_minutes_of_traffic(scaler, 0.0) };
            let report = scenario.run(seconds(600)).unwrap();
            assert_eq!(report.final_size(), 0, "{report}");
            assert_all_served(&report);
        }
    }
}

#[test]
fn keeps_minimum_without_scale_to_zero() {
    for scaler in SCALERS {
        let scenario =
            Scenario { scale_to_zero: false, min_replicas: 2, ..two_minutes_of_traffic(scaler, 0.0) };
        let report = scenario.run(seconds(600)).unwrap();
        assert_eq!(report.final_size(), 2, "{report}");
    }
}
