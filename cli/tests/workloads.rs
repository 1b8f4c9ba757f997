//! `status`, `top` and `why` on an API in memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use fake_api::{FakeApi, Outage};
use http::StatusCode;
use serde_json::{Value, json};
use support::{put_report, put_workload, report, run};

fn shop() -> FakeApi {
    let api = FakeApi::default();
    put_workload(&api, "web", json!({"phase": "Active", "reason": "ReceivingTraffic", "replicas": 3}));
    put_report(&api, "web", &report(Some(151.25), 3));
    put_workload(&api, "cart", json!({"phase": "AtZero", "reason": "NoTraffic", "replicas": 0}));
    put_report(&api, "cart", &report(Some(0.0), 0));
    api
}

#[tokio::test]
async fn status_lists_state_size_load_and_target_of_each_workload() {
    let output = run(&shop(), &["status"]).await.unwrap();
    let expected = "\
NAMESPACE   NAME   STATE    SIZE   LOAD     TARGET   DECIDED   REASON
shop        cart   AtZero   0      0        70       0         NoTraffic
shop        web    Active   3      151.25   70       3         ReceivingTraffic
";
    assert_eq!(output.text, expected);
}

#[tokio::test]
async fn status_shows_the_minimum_of_schedules() {
    let api = shop();
    let schedule = json!({"minimum": 2, "nextChange": "2026-11-25T18:00:00Z", "nextMinimum": 0});
    put_workload(&api, "web", json!({"phase": "Active", "replicas": 3, "schedule": schedule}));
    let text = run(&api, &["status"]).await.unwrap().text;
    let line = "schedule of shop/web: at least 2 pods until 2026-11-25T18:00:00Z, then no minimum\n";
    assert!(text.contains(line), "{text}");
    let json = run(&api, &["status", "-o", "json"]).await.unwrap().json();
    assert_eq!(json["workloads"][1]["schedule"]["minimum"], 2);
    assert_eq!(json["workloads"][0].get("schedule"), None);
}

#[tokio::test]
async fn status_shows_what_the_workloads_saved_together() {
    let api = shop();
    let savings = |pods: i64| {
        json!({"since": "2026-11-01T00:00:00Z", "podSeconds": pods, "cpuMilliSeconds": pods * 500,
            "memoryMebibyteSeconds": pods * 256})
    };
    put_workload(&api, "web", json!({"phase": "Active", "replicas": 3, "savings": savings(7200)}));
    put_workload(&api, "cart", json!({"phase": "Active", "replicas": 1, "savings": savings(-1800)}));
    let text = run(&api, &["status"]).await.unwrap().text;
    let line =
        "saved at zero against one pod each: 1.5 pod-hours, 0.8 CPU-hours and 0.4 GiB-hours of requests\n";
    assert!(text.contains(line), "{text}");
    let json = run(&api, &["status", "-o", "json"]).await.unwrap().json();
    assert_eq!(json["workloads"][1]["savedPodHours"], 2.0);
}

#[tokio::test]
async fn status_shows_unknown_load_as_unknown_with_its_reason() {
    let api = shop();
    put_report(&api, "web", &report(None, 3));
    let text = run(&api, &["status"]).await.unwrap().text;
    assert!(text.contains("web    Active   3      -"), "{text}");
    assert!(text.contains("1 workload without load: no pod has reported yet"), "{text}");
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/why/web";
    api.respond_to_reads(path, StatusCode::SERVICE_UNAVAILABLE, "no endpoints available");
    let json = run(&api, &["status", "-o", "json"]).await.unwrap().json();
    let web = &json["workloads"][1];
    assert_eq!((&web["name"], &web["size"], &web["load"]), (&json!("web"), &json!(3), &Value::Null));
    assert!(web["missing"].as_str().unwrap().contains("no endpoints available"), "{web}");
}

#[tokio::test]
async fn status_without_workloads_names_the_next_command() {
    let text = run(&FakeApi::default(), &["status"]).await.unwrap().text;
    assert!(text.contains("kubectl rouse init"), "{text}");
}

#[tokio::test]
async fn status_of_unreachable_cluster_fails() {
    let api = shop();
    api.set_outage(Some(Outage::Failing));
    let error = run(&api, &["status"]).await.err().unwrap();
    assert!(error.to_string().starts_with("list PodAutoscalers"), "{error}");
}

#[tokio::test]
async fn top_lists_the_highest_load_first_with_the_share_of_the_target() {
    let json = run(&shop(), &["top", "-o", "json"]).await.unwrap().json();
    let web = &json["workloads"][0];
    assert_eq!(web["name"], "web");
    let utilization = web["utilization"].as_f64().unwrap();
    assert!((utilization - 72.02).abs() < 0.01, "{utilization}");
    assert_eq!(json["workloads"][1]["loadPerPod"], Value::Null);
}

#[tokio::test]
async fn why_prints_the_report_of_the_named_workload() {
    let api = shop();
    let json = run(&api, &["why", "shop/web", "-o", "json"]).await.unwrap().json();
    assert_eq!(json["pods"]["ready"], 3);
    let error = run(&api, &["why", "absent"]).await.err().unwrap();
    assert!(error.to_string().starts_with("why shop/absent: "), "{error}");
    let error = run(&api, &["why", "a/b/c"]).await.err().unwrap();
    assert!(error.to_string().contains("NAMESPACE/NAME"), "{error}");
}
