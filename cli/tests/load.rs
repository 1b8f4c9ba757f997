//! `record` and `shadow` on an API in memory, and `shadow` on a trace.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use autoscaler::scaling::replay::{Replay, TraceLine};
use clap::Parser;
use cli::args::{Cli, Command};
use cli::load::shadow;
use fake_api::FakeApi;
use http::StatusCode;
use serde_json::{Value, json};
use support::{put_workload, run};

fn spec() -> Value {
    json!({
        "metric": "concurrency", "target": 70.0, "totalTarget": 100.0, "targetBurstCapacity": 211.0,
        "stableWindowSeconds": 60.0, "panicWindowPercentage": 10.0, "panicThresholdPercentage": 200.0,
        "maxScaleUpRate": 1000.0, "maxScaleDownRate": 2.0, "scaleDownDelaySeconds": 0.0,
        "activationScale": 1.0, "reachable": true, "aggregation": "linear",
    })
}

/// Five minutes with the load of three pods, while there are two.
fn lines() -> Vec<Value> {
    let load = |t: u64| {
        json!({"t": t, "stat": {
            "concurrency": 200.5, "proxiedConcurrency": 0.0, "requestCount": 9.0, "proxiedRequestCount": 0.0
        }})
    };
    let first = json!({"t": 0.25, "spec": spec(), "ready": 2});
    let seconds = (1..300).flat_map(|t| [load(t), json!({"t": t, "decide": true})]);
    [first].into_iter().chain(seconds).collect()
}

fn put_trace(api: &FakeApi, lines: &[Value]) {
    let response = json!({"workload": "shop/web", "recording": "17", "next": lines.len(), "lines": lines});
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/web";
    api.respond_to_reads(path, StatusCode::OK, response.to_string());
}

#[tokio::test]
async fn record_prints_lines_that_a_replay_takes() {
    let api = FakeApi::default();
    put_trace(&api, &lines());
    let text = run(&api, &["record", "web", "--for", "0s"]).await.unwrap().text;
    assert!(text.starts_with("{\"t\":0.25,"), "{text:.80}");
    let mut replay = Replay::new();
    let parsed = text.lines().map(|line| serde_json::from_str::<TraceLine>(line).unwrap());
    let decisions = parsed.filter_map(|line| replay.take(line).unwrap()).count();
    assert_eq!(decisions, 299);
}

#[tokio::test]
async fn record_reports_why_a_load_cannot_be_read() {
    let api = FakeApi::default();
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/trace/web";
    api.respond_to_reads(path, StatusCode::GONE, "the recording has ended");
    let error = run(&api, &["record", "web"]).await.err().unwrap().to_string();
    assert!(error.contains("the load of shop/web: the recording has ended"), "{error}");
}

#[tokio::test]
async fn shadow_compares_both_on_the_workload_of_the_target() {
    let api = FakeApi::default();
    put_workload(&api, "web", json!({"phase": "Active"}));
    put_trace(&api, &lines());
    let output = run(&api, &["shadow", "deploy/web", "--for", "0s", "-o", "json"]).await.unwrap().json();
    assert_eq!(output["workload"], "shop/web");
    assert_eq!((&output["other"]["podSeconds"], &output["rouse"]["peak"]), (&json!(598), &json!(3)));
    assert!(output["other"]["secondsOverTarget"].as_u64() > Some(290), "{output}");
    assert_eq!(output["decisions"][298]["desired"], 3);
}

#[tokio::test]
async fn shadow_of_a_target_that_is_not_counted_names_the_annotations() {
    let api = FakeApi::default();
    put_workload(&api, "web", json!({"phase": "Active"}));
    let error = run(&api, &["shadow", "deploy/other"]).await.err().unwrap().to_string();
    assert!(error.contains("metric: none"), "{error}");
}

/// The desired pods of each decision equal those of `simulate` on the same file.
#[test]
fn shadow_of_a_recorded_trace_needs_no_cluster() {
    let file = std::env::temp_dir().join(format!("rouse-shadow-{}.ndjson", std::process::id()));
    let text: String = lines().iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let words = ["kubectl-rouse", "shadow", "--max", "2", "--trace", file.to_str().unwrap()];
    let Command::Shadow(args) = Cli::try_parse_from(words).unwrap().command else { panic!() };
    let mut out = Vec::new();
    shadow::run_recorded(&args, &file, cli::args::OutputFormat::Text, &mut out).unwrap();
    std::fs::remove_file(&file).unwrap();
    let text = String::from_utf8(out).unwrap();
    let row = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().rev().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("most pods"), ["2", "2"]);
    assert_eq!(row("seconds over the target"), ["298", "298"]);
}

#[test]
fn shadow_requires_a_target_or_a_trace() {
    for wrong in [&["shadow"] as &[_], &["shadow", "deploy/web", "--trace", "a"]] {
        assert!(Cli::try_parse_from([&["kubectl-rouse"], wrong].concat()).is_err(), "{wrong:?}");
    }
}
