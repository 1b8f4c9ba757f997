//! Replays recorded inputs of Knative's autoscaler and compares every decision and average with its
//! output.
//!
//! The files are in `tests/traces` of the repository; their README has their origin and format.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read its files has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use autoscaler::scaling::replay::{EPOCH, Replay, TraceAggregation, TraceDecision, TraceLine};
use autoscaler::settings::Aggregation;
use autoscaler::stats::window::{MaxWindow, Window};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn decisions_agree_with_knative() {
    replay_all(|line| vec![line]);
}

/// The metrics-adapter records a second of pods without sidecar as one without requests, beside the
/// reports of the activators, which are always in the path (a target burst capacity of -1).
#[test]
fn decisions_on_pods_without_sidecar_agree_with_knative() {
    replay_all(|line| {
        let zero = line.get("stat").map(|_| {
            let stat = json!({
                "pod": "web-1", "concurrency": 0.0, "proxiedConcurrency": 0.0, "requestCount": 0.0,
                "proxiedRequestCount": 0.0,
            });
            json!({"t": line["t"], "stat": stat})
        });
        std::iter::once(line).chain(zero).collect()
    });
}

/// Replays all traces, with each line replaced by the lines that `change` makes of it.
fn replay_all(change: impl Fn(Value) -> Vec<Value>) {
    let traces: Vec<_> = files().into_iter().filter(|path| name(path).ends_with(".trace.ndjson")).collect();
    assert!(traces.len() >= 24, "{} traces", traces.len());
    let mut decisions = 0;
    for path in traces {
        let expected =
            read::<TraceDecision>(&path.with_file_name(name(&path).replace(".trace.", ".expected.")));
        decisions += expected.len();
        let weighted = fs::read_to_string(&path).unwrap().contains(r#""aggregation":"weighted""#);
        let mut expected = expected.into_iter();
        let mut replay = Replay::new();
        let lines = (1..).zip(read::<Value>(&path)).flat_map(|(number, line)| {
            change(line)
                .into_iter()
                .map(move |line| (number, serde_json::from_value::<TraceLine>(line).unwrap()))
        });
        for (number, line) in lines {
            let place = format!("{}:{number}", name(&path));
            let decision = replay.take(line).unwrap_or_else(|error| panic!("{place}: {error}"));
            if let Some(decision) = decision {
                let expected =
                    expected.next().unwrap_or_else(|| panic!("{place}: more decisions than expected"));
                let got = TraceDecision::from(&decision);
                assert!(agree(&got, &expected, weighted), "{place}: {got:?} instead of {expected:?}");
            }
        }
        assert_eq!(expected.count(), 0, "{}: fewer decisions than expected", name(&path));
    }
    assert!(decisions > 1000, "{decisions} decisions");
}

#[derive(Deserialize)]
struct WindowSequence {
    id: u32,
    #[serde(with = "TraceAggregation")]
    kind: Aggregation,
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
        let mut window =
            Window::with_granularity(sequence.kind, Duration::from_secs(sequence.window), granularity);
        let weighted = sequence.kind == Aggregation::WeightedExponential;
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

fn agree(got: &TraceDecision, expected: &TraceDecision, weighted: bool) -> bool {
    let same = |got: Option<f64>, expected: Option<f64>| match (got, expected) {
        (Some(got), Some(expected)) => same(got, expected, weighted),
        (got, expected) => got == expected,
    };
    TraceDecision { stable: None, panic: None, ..*got }
        == TraceDecision { stable: None, panic: None, ..*expected }
        && same(got.stable, expected.stable)
        && same(got.panic, expected.panic)
}

/// Equality of all bits. Weighted averages may differ in the last digits, because `pow()` differs
/// between libraries.
fn same(got: f64, expected: f64, weighted: bool) -> bool {
    let difference = (got - expected).abs();
    got == expected || (weighted && (difference <= 1e-12 || difference <= 1e-9 * expected.abs()))
}

/// Times in the files are whole milliseconds.
fn at(t: f64) -> Duration {
    EPOCH + Duration::from_millis((t * 1000.0).round() as u64)
}

/// The traces of this repository, or of the directory that `ROUSE_TRACES` names.
fn directory() -> PathBuf {
    // Cargo runs a test in its package's folder. A compiled-in path would be wrong on another
    // machine.
    std::env::var_os("ROUSE_TRACES").map_or_else(|| PathBuf::from("../tests/traces"), PathBuf::from)
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
