use autoscaler::history::Wake;
use autoscaler::settings::LearnTarget::Apply;

use super::*;
use crate::external_metrics::value::tests::values;

const NOW: i64 = 1_800_000_000_000;

/// The API's values of the workload `shop/web`, which has a load at `at`.
fn with_load(at: i64) -> MetricValues {
    let workload = Workload::learning("web", Apply, 20.0);
    let values = values(&workload, 160.0);
    let sample = Sample { load: Some(160.0), ready: 8, decided: Some(8), target: 20.0, ..Sample::default() };
    values.history.record_sample(&workload.key, at, sample);
    values
}

#[test]
fn report_has_the_samples_and_wakes_of_the_hour() {
    let values = with_load(NOW - 90_000);
    let wake = Wake {
        received: NOW - 95_000,
        reported: Some(1),
        created: Some(30),
        scheduled: Some(40),
        started: 700,
        verified: 900,
        forwarded: 901,
        answered: 910,
    };
    values.history.record_wake(&Key::new("shop", "web"), wake, NOW - 94_000);
    values.history.record_wake(&Key::new("shop", "unknown"), wake, NOW - 94_000);
    let report = report(&values, "shop", "web", NOW).unwrap();
    assert_eq!((report.metric.as_str(), report.now), ("concurrency", NOW));
    let samples: Vec<_> = report.samples.iter().map(|sample| (sample.at, sample.sample.load)).collect();
    assert_eq!(samples, [(NOW - 90_000, Some(160.0))]);
    assert_eq!(report.wakes, [wake]);
    assert_eq!(super::report(&values, "shop", "web", NOW + 3_700_000).unwrap().wakes, []);
    assert!(super::report(&values, "shop", "unknown", NOW).is_err());
}

#[test]
fn list_has_the_present_state_and_no_old_load() {
    let values = with_load(NOW - 4000);
    let list = current(&values, None, NOW).workloads;
    let [web] = list.as_slice() else { panic!("{list:?}") };
    assert_eq!((web.name.as_str(), web.sample.load, web.sample.ready), ("web", Some(160.0), 8));
    assert_eq!(web.missing, None);
    assert_eq!(current(&values, Some("shop"), NOW).workloads, list);
    assert_eq!(current(&values, Some("other"), NOW).workloads, []);
    let later = current(&values, None, NOW + 90_000).workloads;
    assert_eq!(later[0].sample.load, None);
    assert!(later[0].missing.is_some(), "{later:?}");
}
