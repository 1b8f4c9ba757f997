//! Replays recorded inputs of Knative's autoscaler and compares every decision and average with what it gave.
//!
//! The files are in `tests/traces` of the repository; their README says where they come from and what they mean.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its files has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoscaler::collection::{Collection, Measure, Windows};
use autoscaler::config::AutoscalerConfig;
use autoscaler::decider::{Decider, DeciderSpec};
use autoscaler::settings::{Aggregation, Settings};
use autoscaler::stats::Stat;
use autoscaler::window::{MaxWindow, Window};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Unix time of second 0 in every file.
const EPOCH: Duration = Duration::from_secs(1_600_000_000);

#[derive(Deserialize)]
struct Input {
    t: f64,
    spec: Option<Spec>,
    ready: Option<u32>,
    stat: Option<Sample>,
    decide: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    metric: String,
    target: f64,
    total_target: f64,
    target_burst_capacity: f64,
    stable_window_seconds: u64,
    panic_window_percentage: f64,
    panic_threshold_percentage: f64,
    max_scale_up_rate: f64,
    max_scale_down_rate: f64,
    scale_down_delay_seconds: u64,
    activation_scale: u32,
    reachable: bool,
    aggregation: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sample {
    concurrency: f64,
    proxied_concurrency: f64,
    request_count: f64,
    proxied_request_count: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Expected {
    valid: bool,
    panicking: bool,
    desired: Option<u32>,
    excess_burst_capacity: Option<i32>,
    stable: Option<f64>,
    panic: Option<f64>,
}

/// One workload during a replay.
struct Replay {
    spec: DeciderSpec,
    measure: Measure,
    weighted: bool,
    ready: u32,
    collection: Collection,
    decider: Decider,
}

// === impl Spec ===

impl Spec {
    fn windows(&self) -> Windows {
        let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &Default::default());
        settings.stable_window = Duration::from_secs(self.stable_window_seconds);
        settings.panic_window_percentage = self.panic_window_percentage;
        settings.aggregation = aggregation(&self.aggregation);
        Windows::from(&settings)
    }

    fn measure(&self) -> Measure {
        match self.metric.as_str() {
            "concurrency" => Measure::Concurrency,
            "rps" => Measure::RequestsPerSecond,
            other => panic!("metric {other}"),
        }
    }

    fn decider_spec(&self) -> DeciderSpec {
        DeciderSpec {
            target: self.target,
            total: self.total_target,
            target_burst_capacity: self.target_burst_capacity,
            panic_threshold: self.panic_threshold_percentage / 100.0,
            max_scale_up_rate: self.max_scale_up_rate,
            max_scale_down_rate: self.max_scale_down_rate,
            stable_window: Duration::from_secs(self.stable_window_seconds),
            scale_down_delay: Duration::from_secs(self.scale_down_delay_seconds),
            activation_scale: self.activation_scale,
            reachable: self.reachable,
        }
    }
}

// === impl Sample ===

impl From<Sample> for Stat {
    fn from(sample: Sample) -> Self {
        Self {
            average_concurrent_requests: sample.concurrency,
            average_proxied_concurrent_requests: sample.proxied_concurrency,
            request_count: sample.request_count,
            proxied_request_count: sample.proxied_request_count,
            ..Self::default()
        }
    }
}

// === impl Replay ===

impl Replay {
    fn new(first: Input) -> Self {
        let (spec, ready) = (first.spec.unwrap(), first.ready.unwrap());
        let windows = spec.windows();
        let measure = spec.measure();
        let spec = spec.decider_spec();
        Self {
            measure,
            weighted: windows.aggregation == Aggregation::WeightedExponential,
            ready,
            collection: Collection::new(windows),
            decider: Decider::new(&spec, ready, at(first.t)),
            spec,
        }
    }

    /// Takes in a line; checks it if it is a decision.
    fn step(&mut self, line: Input, expected: &mut impl Iterator<Item = Expected>) -> Result<(), String> {
        let now = at(line.t);
        if let Some(spec) = line.spec {
            self.collection.resize(spec.windows(), now);
            self.spec = spec.decider_spec();
        } else if let Some(ready) = line.ready {
            self.ready = ready;
        } else if let Some(sample) = line.stat {
            self.collection.record(now, &sample.into());
        } else if line.decide == Some(true) {
            return self.check(now, &expected.next().ok_or("more decisions than expected")?);
        }
        Ok(())
    }

    fn check(&mut self, now: Duration, expected: &Expected) -> Result<(), String> {
        let averages = self.collection.averages(self.measure, now);
        let verdict = self.decider.decide(&self.spec, averages, self.ready, now);
        let agrees = verdict.is_some() == expected.valid
            && self.decider.is_panicking() == expected.panicking
            && verdict.is_none_or(|v| {
                Some(v.desired) == expected.desired
                    && Some(v.excess_burst_capacity) == expected.excess_burst_capacity
                    && same(v.averages.stable, expected.stable.unwrap(), self.weighted)
                    && same(v.averages.panic, expected.panic.unwrap(), self.weighted)
            });
        if agrees { Ok(()) } else { Err(format!("{expected:?}, but decided {verdict:?}")) }
    }
}

#[test]
fn decisions_agree_with_knative() {
    let traces: Vec<_> = files().into_iter().filter(|path| name(path).ends_with(".trace.ndjson")).collect();
    assert!(traces.len() >= 24, "{} traces", traces.len());
    let mut decisions = 0;
    for path in traces {
        let mut lines = read::<Input>(&path).into_iter();
        let expected = read::<Expected>(&path.with_file_name(name(&path).replace(".trace.", ".expected.")));
        decisions += expected.len();
        let mut expected = expected.into_iter();
        let mut replay = Replay::new(lines.next().unwrap());
        for (number, line) in (2..).zip(lines) {
            if let Err(difference) = replay.step(line, &mut expected) {
                panic!("{}:{number}: expected {difference}", name(&path));
            }
        }
        assert_eq!(expected.count(), 0, "{}: decisions were left over", name(&path));
    }
    assert!(decisions > 1000, "{decisions} decisions");
}

#[derive(Deserialize)]
struct WindowSequence {
    id: u32,
    kind: String,
    window: u64,
    granularity: u64,
    ops: Vec<WindowOp>,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
enum WindowOp {
    Record { t: f64, v: f64 },
    Average { t: f64, out: f64 },
    Empty { t: f64, out: bool },
    Resize { t: f64, window: u64 },
}

#[test]
fn windows_agree_with_knative() {
    for sequence in read::<WindowSequence>(&directory().join("windows.ndjson")) {
        let granularity = Duration::from_secs(sequence.granularity);
        let kind = aggregation(&sequence.kind);
        let mut window = Window::with_granularity(kind, Duration::from_secs(sequence.window), granularity);
        let weighted = kind == Aggregation::WeightedExponential;
        for (step, op) in sequence.ops.into_iter().enumerate() {
            let place = format!("sequence {}, step {step}", sequence.id);
            match op {
                WindowOp::Record { t, v } => window.record(at(t), v),
                WindowOp::Resize { t, window: length } => window.resize(Duration::from_secs(length), at(t)),
                WindowOp::Empty { t, out } => assert_eq!(window.is_empty(at(t)), out, "{place}"),
                WindowOp::Average { t, out } => {
                    let got = window.average(at(t));
                    assert!(same(got, out, weighted), "{place}: {got} instead of {out}");
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct MaxSequence {
    id: u32,
    duration: u64,
    granularity: u64,
    ops: Vec<MaxOp>,
}

#[derive(Deserialize)]
struct MaxOp {
    t: f64,
    v: u32,
    out: u32,
}

#[test]
fn sliding_maxima_agree_with_knative() {
    for sequence in read::<MaxSequence>(&directory().join("maxwindow.ndjson")) {
        let mut window =
            MaxWindow::new(Duration::from_secs(sequence.duration), Duration::from_secs(sequence.granularity));
        for (step, op) in sequence.ops.iter().enumerate() {
            assert_eq!(window.record(at(op.t), op.v), op.out, "sequence {}, step {step}", sequence.id);
        }
    }
}

/// Bit for bit; what goes through pow() may differ in the last digits between libraries.
fn same(got: f64, expected: f64, weighted: bool) -> bool {
    let difference = (got - expected).abs();
    got == expected || (weighted && (difference <= 1e-12 || difference <= 1e-9 * expected.abs()))
}

/// The files give whole milliseconds.
fn at(t: f64) -> Duration {
    EPOCH + Duration::from_millis((t * 1000.0).round() as u64)
}

fn aggregation(kind: &str) -> Aggregation {
    match kind {
        "linear" => Aggregation::Linear,
        "weighted" => Aggregation::WeightedExponential,
        other => panic!("aggregation {other}"),
    }
}

/// The traces of this repository, or of the directory that `ROUSE_TRACES` names.
fn directory() -> PathBuf {
    std::env::var_os("ROUSE_TRACES")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/traces"), PathBuf::from)
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}
