//! From nothing to a thousand requests at once: a sleeping workload whose pods take five seconds to start serves them all
//! within half a minute, and loses none.

use std::time::Duration;

use simulator::{HpaMetric, Load, Profile, Report, Scaler, Scenario, Writer, settings};

use crate::seconds;

const BOTH: [Scaler; 2] = [Scaler::Direct, Scaler::Hpa(HpaMetric::Average)];

/// A sleeping workload; a request takes a second.
fn asleep(scaler: Scaler, container_concurrency: u32, load: Load) -> Scenario {
    Scenario { scaler, container_concurrency, load, initial_replicas: 0, ..Scenario::default() }
}

fn all_served_within_half_a_minute(report: &Report) {
    assert_eq!((report.refused, report.timed_out), (0, 0), "{report}");
    assert!(report.latencies.longest() <= seconds(30), "{report}");
}

/// Whatever the fraction of a second that they come in.
#[test]
fn a_thousand_at_once_are_served_within_half_a_minute() {
    for scaler in BOTH {
        for container_concurrency in [100, 0] {
            for millis in [10_000, 10_300, 11_740, 11_760] {
                let load = Load::none().burst(Duration::from_millis(millis), 1000);
                let report = asleep(scaler, container_concurrency, load).run(seconds(60)).unwrap();
                assert_eq!(report.served, 1000, "{report}");
                all_served_within_half_a_minute(&report);
            }
        }
    }
}

#[test]
fn a_thousand_callers_who_stay_never_wait_longer_than_that() {
    for scaler in BOTH {
        for container_concurrency in [100, 0] {
            let load = Load::clients(Profile::constant(0.0).step(seconds(10), 1000.0));
            let report = asleep(scaler, container_concurrency, load).run(seconds(60)).unwrap();
            all_served_within_half_a_minute(&report);
            assert_eq!(report.running + report.held, 1000, "everybody is there still\n{report}");
            assert_eq!(report.final_size(), 15, "{report}");
        }
    }
}

/// Pods of 10 that carry 7: there have to be 143 of them.
#[test]
fn a_thousand_at_once_on_small_pods() {
    for scaler in BOTH {
        let load = Load::none().burst(seconds(10), 1000);
        let report = Scenario { target: 7.0, ..asleep(scaler, 10, load) }.run(seconds(60)).unwrap();
        assert_eq!(report.served, 1000, "{report}");
        all_served_within_half_a_minute(&report);
    }
}

#[test]
fn the_first_pod_is_asked_for_within_milliseconds() {
    for scaler in BOTH {
        let load = Load::none().burst(Duration::from_millis(10_300), 1);
        let report = asleep(scaler, 100, load).run(seconds(30)).unwrap();
        let first = report.changes[0];
        assert_eq!((first.from, first.to, first.writer), (0, 1, Writer::Wake), "{report}");
        assert!(first.at <= Duration::from_millis(10_310), "{report}");
        assert_eq!(report.latencies.longest(), Duration::from_millis(6010), "a start and a second\n{report}");
    }
}

#[test]
fn the_activation_scale_is_the_first_size() {
    for scaler in BOTH {
        let settings = settings(|s| s.activation_scale = 4);
        let scenario = asleep(scaler, 100, Load::none().burst(seconds(10), 1));
        let report = Scenario { settings, ..scenario }.run(seconds(15)).unwrap();
        assert_eq!(report.changes[0].to, 4, "{report}");
    }
}
