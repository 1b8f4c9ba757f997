//! Stats: as JSON from a pod, in a push of an activator, and as a datagram.

use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;

use autoscaler::settings::Aggregation;
use autoscaler::stats::collection::{Collection, WindowSpec};
use autoscaler::stats::datagram::{StatQuery, StatResponse};
use autoscaler::stats::{ActivatorReport, Stat, extrapolate, widened_sample};
use fuzzing::Campaign;

const WORDS: &[&[u8]] = &[
    b"-1",
    b"1e308",
    b"1e309",
    b"-0.0",
    b"NaN",
    b"null",
    b"{}",
    b"[",
    b"\"averageConcurrentRequests\":",
    b"\"timestamp\":",
    b"9223372036854775808",
    b"\x7f\xf8\0\0\0\0\0\0",
    b"\x7f\xf0\0\0\0\0\0\0",
    b"\xff\xf0\0\0\0\0\0\0",
    b"\x80\0\0\0\0\0\0\0",
    b"rst!\x01",
    b"rst!\x02",
    b"\"app\":",
    b"\"objectiveMicros\":",
    b"\\ud800",
];
const NOW: Duration = Duration::from_secs(1_800_000_000);

#[test]
fn averages_stay_finite_for_any_stat() {
    let corpus = crate::corpus("stats", WORDS);
    let inputs = crate::run(Campaign::from_environment(), &corpus, |bytes| {
        assert!(StatQuery::decode(bytes).is_none() || StatResponse::decode(bytes).is_none());
        let one = serde_json::from_slice::<Stat>(bytes).ok();
        let pushed = serde_json::from_slice::<ActivatorReport>(bytes).unwrap_or_default().messages;
        let datagram = StatResponse::decode(bytes).and_then(|answer| answer.stat);
        let stats: Vec<Stat> =
            one.into_iter().chain(datagram).chain(pushed.into_iter().map(|it| it.stat)).collect();
        check_averages(&stats);
    });
    println!("{inputs} stats");
}

/// Records all stats, and checks that averages are finite.
fn check_averages(stats: &[Stat]) {
    let windows = WindowSpec {
        stable: Duration::from_secs(60),
        panic: Duration::from_secs(6),
        aggregation: Aggregation::Linear,
    };
    let mut collection = Collection::new(windows);
    for stat in stats {
        collection.record(NOW, stat);
    }
    let plausible: Vec<Stat> = stats.iter().filter(|stat| stat.is_plausible()).cloned().collect();
    assert!(widened_sample(&plausible, 1000) <= 1000);
    collection.record(NOW, &extrapolate(&[], &plausible, 1000));
    for measure in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
        if let Some(averages) = collection.averages(measure, NOW) {
            assert!(averages.stable.is_finite() && averages.panic.is_finite(), "{averages:?}");
        }
    }
}
