//! LoadRecording: the inputs of a live workload's windows and decider, as lines of a trace.
//!
//! Input: each stat as the windows get it, and each decision. Output: lines that a
//! [`Replay`](super::Replay) takes, which then decides as the workload did. The caller encodes
//! them.
//!
//! What surprises: a replay begins with empty windows and in a panic, the workload did not. They
//! decide alike when a stable window has passed. Unread lines are dropped, the
//! oldest first, and a later read fails.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use super::spec::Spec;
use crate::contract::metric_name::MetricName;
use crate::scaling::decider::DeciderSpec;
use crate::stats::Stat;
use crate::stats::collection::WindowSpec;

/// Lines kept: a minute with reports of ten activators each second. About 150 KiB.
const MAX_LINES: usize = 1024;

/// A recording that goes on.
#[derive(Clone, Debug)]
pub struct LoadRecording {
    /// The time of second 0. Whole, so that a stat is in the same second of both clocks.
    origin: Duration,
    /// Milliseconds of the newest line.
    latest: u64,
    spec: Spec,
    ready: u32,
    lines: VecDeque<RecordedLine>,
    /// Lines that were dropped.
    dropped: u64,
}

/// A line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordedLine {
    t: f64,
    #[serde(flatten)]
    event: RecordedEvent,
}

/// What a line has besides its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum RecordedEvent {
    Start { spec: Box<Spec>, ready: u32 },
    Spec { spec: Box<Spec> },
    Ready { ready: u32 },
    Stat { stat: RecordedStat },
    Decide { decide: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordedStat {
    concurrency: f64,
    proxied_concurrency: f64,
    request_count: f64,
    proxied_request_count: f64,
    /// Seconds before the line's time, which never decreases.
    #[serde(skip_serializing_if = "is_zero")]
    late: u64,
}

/// Some lines of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedLines {
    /// The lines, in their order.
    pub lines: Vec<RecordedLine>,
    /// Number of the line after them.
    pub next: u64,
}

// === impl LoadRecording ===

impl LoadRecording {
    /// A recording from `now` on, with its first line.
    pub fn new(
        metric: MetricName,
        windows: WindowSpec,
        spec: &DeciderSpec,
        ready: u32,
        now: Duration,
    ) -> Self {
        let spec = Spec::of_workload(metric, windows, spec);
        let start = RecordedEvent::Start { spec: Box::new(spec.clone()), ready };
        let origin = Duration::from_secs(now.as_secs());
        let mut recording = Self { origin, latest: 0, spec, ready, lines: VecDeque::new(), dropped: 0 };
        recording.push(now, start);
        recording
    }

    /// Adds a stat that the windows recorded in the second `at`.
    pub fn stat(&mut self, at: Duration, stat: &Stat) {
        let second = at.saturating_sub(self.origin).as_secs();
        let stat = RecordedStat {
            concurrency: stat.average_concurrent_requests,
            proxied_concurrency: stat.average_proxied_concurrent_requests,
            request_count: stat.request_count,
            proxied_request_count: stat.proxied_request_count,
            late: (self.latest / 1000).saturating_sub(second),
        };
        self.push(at, RecordedEvent::Stat { stat });
    }

    /// Adds a decision with these settings and ready pods. Returns false, and adds nothing, if
    /// metric or aggregation differ from the first line: a trace has one of each.
    #[must_use]
    pub fn decision(
        &mut self,
        metric: MetricName,
        windows: WindowSpec,
        spec: &DeciderSpec,
        ready: u32,
        now: Duration,
    ) -> bool {
        let spec = Spec::of_workload(metric, windows, spec);
        if self.spec.metric != spec.metric || self.spec.aggregation != spec.aggregation {
            return false;
        }
        if spec != self.spec {
            self.spec = spec.clone();
            self.push(now, RecordedEvent::Spec { spec: Box::new(spec) });
        }
        if ready != self.ready {
            self.ready = ready;
            self.push(now, RecordedEvent::Ready { ready });
        }
        self.push(now, RecordedEvent::Decide { decide: true });
        true
    }

    /// The lines from number `from` on; `None` if some of them were dropped.
    pub fn lines_from(&self, from: u64) -> Option<RecordedLines> {
        let skip = usize::try_from(from.checked_sub(self.dropped)?).ok()?;
        let next = self.dropped + self.lines.len() as u64;
        Some(RecordedLines { lines: self.lines.iter().skip(skip).cloned().collect(), next })
    }

    fn push(&mut self, at: Duration, event: RecordedEvent) {
        let millis = at.saturating_sub(self.origin).as_millis();
        self.latest = self.latest.max(u64::try_from(millis).unwrap_or(u64::MAX));
        if self.lines.len() >= MAX_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(RecordedLine { t: self.latest as f64 / 1000.0, event });
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(late: &u64) -> bool {
    *late == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaling::decider::Decider;
    use crate::scaling::replay::{Replay, TraceLine};
    use crate::settings::Aggregation;
    use crate::stats::collection::Collection;

    const METRIC: MetricName = MetricName::Concurrency;
    const START: Duration = Duration::from_millis(1_763_000_000_700);

    fn windows() -> WindowSpec {
        WindowSpec {
            stable: Duration::from_secs(60),
            panic: Duration::from_secs(6),
            aggregation: Aggregation::Linear,
        }
    }

    fn recording() -> LoadRecording {
        LoadRecording::new(METRIC, windows(), &DeciderSpec::default(), 1, START)
    }

    fn stat(concurrency: f64) -> Stat {
        Stat { average_concurrent_requests: concurrency, request_count: 1.0, ..Stat::default() }
    }

    fn parsed(line: &RecordedLine) -> TraceLine {
        serde_json::from_str(&serde_json::to_string(line).unwrap()).unwrap()
    }

    /// Ten minutes with a burst, in which the ready pods follow the decisions and the target
    /// changes.
    #[test]
    fn replay_decides_as_the_workload_did() {
        let mut spec = DeciderSpec { target: 10.0, total: 14.0, ..DeciderSpec::default() };
        let (mut collection, mut ready) = (Collection::new(windows()), 1);
        let mut decider = Decider::new(&spec, ready, START);
        let mut recording = LoadRecording::new(METRIC, windows(), &spec, ready, START);
        let (mut replay, mut read, mut compared) = (Replay::new(), 0, 0);
        for second in 1..600 {
            let now = START + Duration::from_secs(second);
            let load = 25.5 + 20.0 * (second as f64 / 60.0).sin() + if second > 300 { 90.25 } else { 0.0 };
            // Every tenth report is two seconds late.
            let late = if second % 10 == 0 { 2 } else { 0 };
            let at = Duration::from_secs(now.as_secs() - late);
            collection.record(at, &stat(load));
            recording.stat(at, &stat(load));
            if second % 2 == 1 {
                continue;
            }
            if second == 400 {
                spec.target = 20.0;
            }
            let decided = decider.decide(&spec, collection.averages(METRIC, now), ready, now);
            assert!(recording.decision(METRIC, windows(), &spec, ready, now));
            let RecordedLines { lines, next } = recording.lines_from(read).unwrap();
            read = next;
            let replayed = lines.iter().filter_map(|line| replay.take(parsed(line)).unwrap()).last().unwrap();
            assert_eq!(replayed.result, decided, "second {second}");
            assert_eq!((replayed.ready, replayed.panicking), (ready, decider.is_panicking()));
            ready = decided.map_or(ready, |decided| decided.desired.max(1));
            compared += 1;
        }
        assert_eq!(compared, 299);
    }

    #[test]
    fn writes_lines_in_the_format_of_traces() {
        let mut recording = recording();
        recording.stat(Duration::from_secs(1_763_000_001), &stat(2.5));
        assert!(recording.decision(
            METRIC,
            windows(),
            &DeciderSpec::default(),
            3,
            START + Duration::from_secs(1)
        ));
        let lines = recording.lines_from(1).unwrap().lines;
        let texts: Vec<String> = lines.iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        assert_eq!(
            texts,
            [
                r#"{"t":1.0,"stat":{"concurrency":2.5,"proxiedConcurrency":0.0,"requestCount":1.0,"proxiedRequestCount":0.0}}"#,
                r#"{"t":1.7,"ready":3}"#,
                r#"{"t":1.7,"decide":true}"#,
            ]
        );
    }

    #[test]
    fn keeps_a_bounded_number_of_lines_and_reports_a_gap() {
        let mut recording = recording();
        for second in 0..MAX_LINES as u64 {
            recording.stat(START + Duration::from_secs(second), &stat(1.0));
        }
        assert_eq!(recording.lines_from(0), None, "the first line was dropped");
        let rest = recording.lines_from(1).unwrap();
        assert_eq!((rest.lines.len(), rest.next), (MAX_LINES, MAX_LINES as u64 + 1));
        assert_eq!(recording.lines_from(rest.next).unwrap().lines, []);
    }

    #[test]
    fn ends_where_the_aggregation_changes() {
        let weighted = WindowSpec { aggregation: Aggregation::WeightedExponential, ..windows() };
        assert!(!recording().decision(METRIC, weighted, &DeciderSpec::default(), 1, START));
    }

    /// A late stat, and one of a clock that is ahead.
    #[test]
    fn time_never_decreases() {
        let mut recording = recording();
        recording.stat(START + Duration::from_secs(3), &stat(1.0));
        recording.stat(START + Duration::from_secs(1), &stat(1.0));
        let lines = recording.lines_from(0).unwrap().lines;
        let times: Vec<f64> = lines.iter().map(|line| line.t).collect();
        assert_eq!(times, [0.7, 3.7, 3.7]);
        assert!(serde_json::to_string(&lines[2]).unwrap().ends_with(",\"late\":2}}"), "{lines:?}");
    }
}
