//! `check` on an API in memory: nothing on a healthy cluster, and planted faults, each of which is
//! named with its object and its fix.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

#[path = "../support/mod.rs"]
mod support;

mod examples;
mod front_doors;
mod healthy;
mod hpa;
mod installation;
mod network_policies;
mod parts;
mod pods;
mod service;

use fake_api::FakeApi;
use http::StatusCode;
use serde_json::json;

use healthy::{AUTOSCALER, SECRET, healthy, put_version};
use support::run;

#[tokio::test]
async fn healthy_cluster_has_no_finding() {
    let api = healthy();
    let output = run(&api, &["check"]).await.unwrap();
    assert!(output.is_success());
    assert_eq!(output.text, "no problems found: Rouse and 1 workload are healthy\n");
    assert_eq!(api.writes(), [""; 0], "check writes nothing");
}

// === arguments and rights ===

#[tokio::test]
async fn preflight_expects_nothing_of_rouse() {
    let api = FakeApi::default();
    put_version(&api, "36");
    let output = run(&api, &["check", "--preflight"]).await.unwrap();
    assert!(output.is_success());
    assert_eq!(output.text, "no problems found: Rouse can be installed\n");
    put_version(&api, "30");
    let output = run(&api, &["check", "--preflight"]).await.unwrap();
    assert!(!output.is_success() && output.text.contains("OldCluster"), "{}", output.text);
}

#[tokio::test]
async fn unreadable_objects_are_listed_and_are_no_findings() {
    let api = healthy();
    let forbidden = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "secrets is forbidden",
    });
    api.respond_to_reads(SECRET, StatusCode::FORBIDDEN, forbidden.to_string());
    let output = run(&api, &["check"]).await.unwrap();
    assert!(output.is_success());
    let expected = "not checked: Secret rouse-system/metrics-adapter-serving: secrets is forbidden\n";
    assert!(output.text.starts_with(expected), "{}", output.text);
}

#[tokio::test]
async fn advice_on_wakes_is_printed_for_one_workload_and_is_no_finding() {
    let api = healthy();
    let mut autoscaler = api.get(AUTOSCALER).unwrap();
    autoscaler["spec"]["scaleToZero"] = json!(true);
    api.put(AUTOSCALER, autoscaler);
    let of = async |args: &[&str]| {
        let output = run(&api, args).await.unwrap();
        assert!(output.is_success(), "{}", output.text);
        output.text
    };
    let advice = of(&["check", "shop/web"]).await;
    assert!(advice.contains("advice: each wake waits a quarter of a second"), "{advice}");
    assert!(advice.ends_with("no problems found: Rouse and 1 workload are healthy\n"), "{advice}");
    assert!(!of(&["check"]).await.contains("advice"));
}

#[tokio::test]
async fn unknown_workload_is_an_error() {
    let api = healthy();
    assert!(run(&api, &["check", "shop/web"]).await.unwrap().is_success());
    let error = run(&api, &["check", "shop/absent"]).await.err().unwrap();
    assert!(error.to_string().contains("shop/absent is not a workload"), "{error}");
}
