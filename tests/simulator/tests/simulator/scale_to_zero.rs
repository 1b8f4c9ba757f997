//! To zero and back: a workload that nobody calls goes to sleep, the first request wakes it, and no request is lost on the way.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, Writer, settings};

use crate::seconds;

const BOTH: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];
/// The clients' last requests have ended.
const QUIET: Duration = seconds(121);

/// Three clients for two minutes. `burst_capacity` -1 keeps the activator in the path, 0 takes it out while pods are there.
fn two_minutes_of_calls(scaler: Scaler, burst_capacity: f64) -> Scenario {
    Scenario {
        scaler,
        load: Load::clients(Profile::constant(3.0).step(seconds(120), 0.0)),
        settings: settings(|s| s.target_burst_capacity = burst_capacity),
        ..Scenario::default()
    }
}

fn asleep_at(report: &Report) -> Duration {
    report.first_at_size(0, Duration::ZERO).unwrap_or_else(|| panic!("it never slept\n{report}"))
}

fn nothing_is_lost(report: &Report) {
    assert_eq!(report.served, report.arrived, "{report}");
}

#[test]
fn sleeps_after_the_window_and_with_activators_new_in_the_path_after_the_grace_period() {
    for scaler in BOTH {
        let proxied = two_minutes_of_calls(scaler, -1.0).run(seconds(600)).unwrap();
        let served = two_minutes_of_calls(scaler, 0.0).run(seconds(600)).unwrap();
        for (report, wait) in [(proxied, seconds(60)), (served, seconds(90))] {
            let slept = asleep_at(&report) - QUIET;
            assert!(
                slept >= wait && slept <= wait + seconds(7),
                "after {slept:?} instead of {wait:?}\n{report}"
            );
            assert_eq!(report.changes.last().unwrap().writer, Writer::Idle, "{report}");
            assert_eq!(report.final_size(), 0);
            nothing_is_lost(&report);
        }
    }
}

#[test]
fn the_first_request_wakes_it_and_then_it_sleeps_again() {
    for scaler in BOTH {
        let mut scenario = two_minutes_of_calls(scaler, 0.0);
        scenario.load = scenario.load.burst(seconds(600), 1);
        let report = scenario.run(seconds(1200)).unwrap();
        let sizes: Vec<_> = report.changes.iter().map(|change| (change.to, change.writer)).collect();
        assert_eq!(sizes, [(0, Writer::Idle), (1, Writer::Wake), (0, Writer::Idle)], "{report}");
        assert!(report.latencies.longest() <= Duration::from_millis(6020), "start and service\n{report}");
        nothing_is_lost(&report);
    }
}

#[test]
fn a_request_in_the_grace_period_ends_the_way_to_zero() {
    for scaler in BOTH {
        let mut scenario = two_minutes_of_calls(scaler, 0.0);
        // The window is over, the activators are in the path, grace is not over.
        scenario.load = scenario.load.burst(seconds(200), 1);
        let report = scenario.run(seconds(600)).unwrap();
        assert!(asleep_at(&report) >= seconds(200 + 1 + 60 + 30), "{report}");
        assert!(report.latencies.longest() <= Duration::from_millis(1010), "it found the pod\n{report}");
        nothing_is_lost(&report);
    }
}

/// The last check and the write are milliseconds apart, and the word of a request takes as long: whichever comes first,
/// the request is answered, by the last pod or by a new one.
#[test]
fn a_request_at_the_last_moment_is_not_lost() {
    for scaler in BOTH {
        let quiet = two_minutes_of_calls(scaler, 0.0).run(seconds(600)).unwrap();
        let zero = asleep_at(&quiet);
        for millis in 0..60 {
            let mut scenario = two_minutes_of_calls(scaler, 0.0);
            let at = zero + Duration::from_millis(millis) - Duration::from_millis(30);
            scenario.load = scenario.load.burst(at, 1);
            let report = scenario.run(zero + seconds(30)).unwrap();
            assert!(report.latencies.longest() <= Duration::from_millis(6100), "at {at:?}\n{report}");
            nothing_is_lost(&report);
        }
    }
}

#[test]
fn a_workload_that_may_not_sleep_rests_at_its_minimum() {
    for scaler in BOTH {
        let awake = Scenario { scale_to_zero: false, min_replicas: 2, ..two_minutes_of_calls(scaler, 0.0) };
        let report = awake.run(seconds(600)).unwrap();
        assert_eq!(report.final_size(), 2, "{report}");
    }
}
