//! Stats as JSON: of a pod's `/stat`, and in the reports of activators to metrics-adapters and
//! zero-scalers.

use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::settings::Aggregation;
use autoscaler::stats::collection::{Collection, WindowSpec};
use autoscaler::stats::{ActivatorReport, ReportStream, Stat, extrapolate, widened_sample};

pub(crate) const WORDS: &[&[u8]] = &[
    b"-1",
    b"1e308",
    b"1e309",
    b"-0.0",
    b"NaN",
    b"null",
    b"{}",
    b"[",
    b"\n",
    b"\"averageConcurrentRequests\":",
    b"\"timestamp\":",
    b"\"sequence\":18446744073709551615,",
    b"\"is_beat\":true,",
    b"9223372036854775808",
    b"\"app\":",
    b"\"objectiveMicros\":",
    b"\\ud800",
];
const NOW: Duration = Duration::from_secs(1_800_000_000);
const WINDOWS: WindowSpec = WindowSpec {
    stable: Duration::from_secs(60),
    panic: Duration::from_secs(6),
    aggregation: Aggregation::Linear,
};

/// Lines are the frames of one connection.
pub(crate) fn check(bytes: &[u8]) {
    let (mut stream, mut stats) = (ReportStream::default(), Vec::new());
    for frame in bytes.split(|byte| *byte == b'\n') {
        stats.extend(serde_json::from_slice::<Stat>(frame));
        let Ok(report) = serde_json::from_slice::<ActivatorReport>(frame) else {
            stream.malformed();
            continue;
        };
        stream.frame(&report, report.messages.iter().all(|message| message.stat.is_plausible()));
        stats.extend(report.messages.iter().map(|message| message.stat.clone()));
        for frame in report.into_frames() {
            serde_json::to_vec(&frame).expect("a decoded report is encoded");
        }
    }
    check_averages(&stats);
}

/// Records all stats, and checks that averages are finite.
pub(crate) fn check_averages(stats: &[Stat]) {
    let mut collection = Collection::new(WINDOWS);
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
