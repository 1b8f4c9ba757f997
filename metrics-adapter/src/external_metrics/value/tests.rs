use std::time::Duration;

use autoscaler::learning_report::Phase;
use autoscaler::scaling::decider::{DecisionRule, ScaleResult};
use autoscaler::settings::LearnTarget::{self, Apply, Off, Recommend};
use autoscaler::settings::{Pause, Schedule, SidecarMode};
use autoscaler::stats::Stat;
use autoscaler::stats::collection::{ScrapeResult, WindowAverages};
use kube::runtime::watcher::Event;
use learning::{LearnedTarget, Learner};
use proptest::prelude::*;
use tokio::sync::watch;

use super::*;
use crate::decisions::decision_history::DecisionRecord;
use crate::learning::learning_report::report;
use crate::learning::resources::resource_readings::ResourceStatus;
use crate::watches::workloads::WorkloadTable;

/// Values of a workload that has this load.
pub(in crate::external_metrics) fn values(workload: &Workload, load: f64) -> MetricValues {
    let (_, workloads) = watch::channel(Arc::new(WorkloadTable::from_iter([workload.clone()])));
    let values = MetricValues {
        collector: Arc::default(),
        decisions: Arc::default(),
        history: Arc::default(),
        pods: ReadyPods::default(),
        workloads,
    };
    let collector = &values.collector;
    collector.create_or_update(&workload.key, workload.windows);
    let total = Stat { average_concurrent_requests: load, ..Stat::default() };
    let round = ScrapeResult::Complete { total, idle: false };
    collector.record_scrape(&workload.key, collector.clock().now(), &round);
    values
}

/// Makes a decision, with this learned target if the workload learns one.
pub(in crate::external_metrics) fn decide(
    values: &MetricValues,
    workload: &Workload,
    learned: f64,
    desired: u32,
    held: bool,
) {
    let (averages, at) = (WindowAverages::default(), component_base::clock::unix_millis());
    let rule = DecisionRule::Stable;
    let result = ScaleResult { desired, excess_burst_capacity: 0, averages, rule, held };
    values.history.record(DecisionRecord {
        at,
        workload: Arc::new(workload.clone()),
        spec: workload.spec.clone(),
        ready: 1,
        averages: Some(averages),
        idle_since: None,
        result: Some(result),
        panicking: false,
        calm: None,
    });
    let learning = workload.learning.as_ref().map(|learning| {
        let learner = Learner::new(learning.spec, 0);
        let learned = LearnedTarget { target: learned, phase: Phase::Settled, ..learner.learned() };
        let state = learner.state(Duration::ZERO);
        Box::new(report(learning, &learned, Some(averages), ResourceStatus::Unavailable, &state))
    });
    let decision = Decision::new(workload.key.clone(), result, false, 1, None, at);
    values.decisions.publish(Decision { learning, ..decision });
}

/// The value of a workload with this load and learned target, in thousandths.
fn served(mode: LearnTarget, load: f64, learned: f64, desired: u32, held: bool) -> i64 {
    let mut workload = Workload::learning("web", mode, 20.0);
    workload.learning = workload.learning.filter(|_| mode != Off);
    let values = values(&workload, load);
    decide(&values, &workload, learned, desired, held);
    values.average(&workload, MetricName::Concurrency).unwrap()
}

#[test]
fn requests_of_pods_without_sidecar_are_an_error_where_nothing_counts_them() {
    let bypassed = Workload { sidecar: SidecarMode::None, bypassed: true, ..Workload::sample("web") };
    let sources = values(&bypassed, 5.0);
    decide(&sources, &bypassed, 1.0, 5, false);
    assert_eq!(sources.average(&bypassed, MetricName::Concurrency), Err(MissingData::Bypassed));
    assert_eq!(sources.desired(&bypassed), Err(MissingData::Bypassed));

    let counted = Workload { bypassed: false, ..bypassed };
    assert_eq!(sources.average(&counted, MetricName::Concurrency), Ok(5000));
    sources.collector.reset(&counted.key);
    assert_eq!(sources.average(&counted, MetricName::Concurrency), Err(MissingData::PodsNotListed));
    [Event::Init, Event::InitDone].into_iter().for_each(|event| sources.pods.apply(event));
    [Event::Init, Event::InitDone]
        .into_iter()
        .for_each(|event| sources.pods.apply_unlabelled("shop".to_owned(), event));
    sources.pods.put_sample("web-1", "web:1", None);
    let missing = sources.average(&counted, MetricName::Concurrency).unwrap_err();
    let window = Duration::from_secs(60);
    assert_eq!(missing, MissingData::NoActivatorReports { existing: 1, ready: 1, window });
}

#[test]
fn schedule_raises_the_metric_that_the_workload_scales_on() {
    let scheduled = |schedule: &str| {
        let schedule = Some(Schedule::parse(schedule).unwrap());
        let workload = Workload { target_milli: 10_000, schedule, ..Workload::sample("web") };
        let values = values(&workload, 5.0);
        decide(&values, &workload, 1.0, 1, false);
        let of = |measure| values.average(&workload, measure).unwrap();
        let averages = (of(MetricName::Concurrency), of(MetricName::RequestsPerSecond));
        (averages, values.desired(&workload).unwrap())
    };
    assert_eq!(scheduled("00:00-24:00: 3"), ((30_000, 0), 3000));
    assert_eq!(scheduled("00:00-24:00: 0"), ((5000, 0), 1000));
}

#[test]
fn pause_keeps_the_size_whatever_load_and_schedule_are() {
    let paused = |pause, size| {
        let schedule = Some(Schedule::parse("00:00-24:00: 3").unwrap());
        let kept = Some(KeptSize { pause, size });
        let workload = Workload { target_milli: 10_000, schedule, kept, ..Workload::sample("web") };
        let values = values(&workload, 500.0);
        decide(&values, &workload, 500.0, 50, true);
        (values.average(&workload, MetricName::Concurrency), values.desired(&workload))
    };
    assert_eq!(paused(Pause::On, Some(2)), (Ok(20_000), Ok(2000)));
    assert_eq!(paused(Pause::Until(i64::MAX), Some(7)), (Ok(70_000), Ok(7000)));
    assert_eq!(
        paused(Pause::On, None),
        (Err(MissingData::SizeNotReported), Err(MissingData::SizeNotReported))
    );
    assert_eq!(paused(Pause::Until(1), Some(2)), (Ok(500_000), Ok(50_000)), "it has ended");
}

#[test]
fn applied_target_scales_the_value_by_the_users_over_the_learned() {
    assert_eq!(served(Apply, 160.0, 8.0, 1, false), 400_000);
    assert_eq!(served(Apply, 160.0, 40.0, 1, false), 80_000);
    assert_eq!(served(Apply, 160.0, 20.0, 1, false), 160_000);
}

#[test]
fn held_decision_keeps_its_floor_in_the_users_target() {
    assert_eq!(served(Apply, 160.0, 8.0, 50, true), 1_000_000);
    assert_eq!(served(Apply, 160.0, 8.0, 10, true), 400_000);
    assert_eq!(served(Recommend, 160.0, 8.0, 50, true), 1_000_000);
}

#[test]
fn applied_target_scales_only_the_metric_that_the_workload_scales_on() {
    let workload = Workload::learning("web", Apply, 20.0);
    let values = values(&workload, 160.0);
    decide(&values, &workload, 8.0, 7, false);
    assert_eq!(values.average(&workload, MetricName::RequestsPerSecond), Ok(0));
    assert_eq!(values.desired(&workload), Ok(7000));
}

#[test]
fn has_no_value_before_the_decision_with_the_learned_target() {
    let workload = Workload::learning("web", Apply, 20.0);
    let values = values(&workload, 160.0);
    decide(&values, &workload, 8.0, 1, false);
    // A change of leader: the history is a follower's.
    values.decisions.clear();
    assert_eq!(values.average(&workload, MetricName::Concurrency), Err(MissingData::NoDecision));
    let recommended = Workload::learning("web", Recommend, 20.0);
    assert_eq!(values.average(&recommended, MetricName::Concurrency), Ok(160_000));
}

#[test]
fn unusable_learned_target_serves_the_average() {
    for unusable in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(served(Apply, 160.0, unusable, 1, false), 160_000, "{unusable}");
    }
}

proptest! {
    #[test]
    fn recommended_target_changes_no_value(load in 0.0..1e6f64, learned in 0.01..1e4f64, held: bool) {
        let plain = served(Off, load, learned, 7, held);
        prop_assert_eq!(served(Recommend, load, learned, 7, held), plain);
        prop_assert_eq!(served(Apply, load, 20.0, 7, held), plain);
    }

    #[test]
    fn hpa_computes_the_pods_of_the_applied_target(load in 0.0..1e5f64, learned in 0.05..500.0f64) {
        let pods = (served(Apply, load, learned, 0, false) as f64 / 20_000.0).ceil();
        let stable = load; // One second in the window is its average.
        prop_assert_eq!(pods, (stable / learned).ceil());
    }
}
