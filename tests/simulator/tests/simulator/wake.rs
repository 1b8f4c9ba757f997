//! A thousand simultaneous requests for a workload at zero, with pods that start in five seconds:
//! all are served within 30 s, and none is lost.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, Writer, settings};

use crate::seconds;

const SCALERS: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];

/// A workload at zero; each request takes a second.
fn at_zero(scaler: Scaler, container_concurrency: u32, load: Load) -> Scenario {
    Scenario { scaler, container_concurrency, load, initial_replicas: 0, ..Scenario::default() }
}

fn assert_served_within_30_s(report: &Report) {
    assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
    assert!(report.latencies.longest() <= seconds(30), "{report}");
}

/// The phase of the burst within a second does not matter.
#[test]
fn serves_a_burst_of_a_thousand_within_30_s() {
    for scaler in SCALERS {
        for container_concurrency in [100, 0] {
            for millis in [10_000, 10_300, 11_740, 11_760] {
                let load = Load::none().burst(Duration::from_millis(millis), 1000);
                let report = at_zero(scaler, container_concurrency, load).run(seconds(60)).unwrap();
                assert_eq!(report.served, 1000, "{report}");
                assert_served_within_30_s(&report);
            }
        }
    }
}

#[test]
fn serves_a_thousand_continuous_clients_within_30_s() {
    for scaler in SCALERS {
        for container_concurrency in [100, 0] {
            let load = Load::clients(Profile::constant(0.0).step(seconds(10), 1000.0));
            let report = at_zero(scaler, container_concurrency, load).run(seconds(60)).unwrap();
            assert_served_within_30_s(&report);
            assert_eq!(report.running + report.held, 1000, "clients without a request\n{report}");
            assert_eq!(report.final_size(), 15, "{report}");
        }
    }
}

/// Pods with a container concurrency of 10 and a target of 7: 143 of them are needed.
#[test]
fn serves_a_burst_of_a_thousand_on_small_pods() {
    for scaler in SCALERS {
        let load = Load::none().burst(seconds(10), 1000);
        let report = Scenario { target: 7.0, ..at_zero(scaler, 10, load) }.run(seconds(60)).unwrap();
        assert_eq!(report.served, 1000, "{report}");
        assert_served_within_30_s(&report);
    }
}

#[test]
fn scales_from_zero_within_10_ms_of_the_first_request() {
    for scaler in SCALERS {
        let load = Load::none().burst(Duration::from_millis(10_300), 1);
        let report = at_zero(scaler, 100, load).run(seconds(30)).unwrap();
        let first = report.changes[0];
        assert_eq!((first.from, first.to, first.writer), (0, 1, Writer::Wake), "{report}");
        assert!(first.at <= Duration::from_millis(10_310), "{report}");
        assert_eq!(
            report.latencies.longest(),
            Duration::from_millis(6010),
            "longer than pod start and service time\n{report}"
        );
    }
}

#[test]
fn first_size_is_the_activation_scale() {
    for scaler in SCALERS {
        let settings = settings(|s| s.scale.activation = 4);
        let scenario = at_zero(scaler, 100, Load::none().burst(seconds(10), 1));
        let report = Scenario { settings, ..scenario }.run(seconds(15)).unwrap();
        assert_eq!(report.changes[0].to, 4, "{report}");
    }
}
