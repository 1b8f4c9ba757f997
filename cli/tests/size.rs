//! `wake` and `sleep` on an API in memory.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use fake_api::FakeApi;
use serde_json::{Value, json};
use support::{put_report, put_workload, report, run};

const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const SERVICE: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web";
const LONG_AGO: &str = "2026-01-01T00:00:00Z";

/// Seconds before now, as the API writes times.
fn ago(seconds: i64) -> String {
    let now = jiff::Timestamp::now();
    jiff::Timestamp::from_second(now.as_second() - seconds).unwrap().to_string()
}

/// An idle workload of this size behind activators: it may sleep.
fn idle(replicas: i32) -> FakeApi {
    let api = FakeApi::default();
    put_workload(
        &api,
        "web",
        json!({"phase": "Active", "replicas": replicas, "route": "activators", "conditions": []}),
    );
    api.put(
        DEPLOYMENT,
        json!({
            "metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": replicas},
        }),
    );
    put_service(&api, LONG_AGO);
    put_load(&api, Some(0.0), Some(&ago(20)));
    api
}

/// Activators are in the path since then.
fn put_service(api: &FakeApi, since: &str) {
    api.put(
        SERVICE,
        json!({
            "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"service": "web", "selector": "app=web", "mode": "Proxy", "numActivators": 2},
            "status": {"mode": "Proxy", "activators": 2, "conditions": [{
                "type": "ActivatorEndpointsPopulated", "status": "True", "reason": "Proxied", "message": "",
                "lastTransitionTime": since,
            }]},
        }),
    );
}

fn put_load(api: &FakeApi, load: Option<f64>, idle_since: Option<&str>) {
    let mut report = report(load, 1);
    report["decisions"][0]["at"] = json!(ago(1));
    report["decisions"][0]["idleSince"] = json!(idle_since);
    put_report(api, "web", &report);
}

fn replicas(api: &FakeApi) -> Value {
    api.get(DEPLOYMENT).unwrap()["spec"]["replicas"].clone()
}

/// Asserts that `sleep` is refused for this reason, and writes nothing.
async fn assert_refused(api: &FakeApi, reason: &str) {
    let error = run(api, &["sleep", "web"]).await.err().unwrap();
    assert!(error.to_string().contains(reason), "{error}");
    assert_eq!(api.writes(), [""; 0]);
}

#[tokio::test]
async fn wake_scales_workload_at_zero_to_min_replicas() {
    let api = idle(0);
    let output = run(&api, &["wake", "web"]).await.unwrap();
    assert_eq!(output.text, "shop/web: Deployment web scaled from 0 to 1\n");
    assert_eq!(replicas(&api), 1);
    let again = run(&api, &["wake", "web", "-o", "json"]).await.unwrap().json();
    assert_eq!((&again["from"], &again["to"]), (&json!(1), &json!(1)));
    assert_eq!(api.writes().len(), 1);
}

#[tokio::test]
async fn wake_of_unknown_workload_names_the_command_that_lists_them() {
    let error = run(&idle(0), &["wake", "absent"]).await.err().unwrap();
    assert!(error.to_string().contains("kubectl rouse status"), "{error}");
}

#[tokio::test]
async fn sleep_scales_idle_workload_behind_activators_to_zero() {
    let api = idle(1);
    let output = run(&api, &["sleep", "web"]).await.unwrap();
    assert_eq!(output.text, "shop/web: Deployment web scaled from 1 to 0\n");
    assert_eq!(replicas(&api), 0);
}

#[tokio::test]
async fn sleep_is_refused_while_a_request_could_be_lost() {
    let api = idle(1);
    put_load(&api, Some(12.5), None);
    assert_refused(&api, "receives requests (concurrency 12.5)").await;
    put_load(&api, Some(0.0), Some(&ago(2)));
    assert_refused(&api, "the last request ended").await;
    put_load(&api, None, None);
    put_report(
        &api,
        "web",
        &json!({
            "service": "web", "metric": "concurrency", "missing": "no pod has reported yet", "target": "70",
            "pods": {"ready": 1, "existing": 1}, "activators": 2, "decisions": [],
        }),
    );
    assert_refused(&api, "unknown: no pod has reported yet").await;

    let api = idle(1);
    put_service(&api, &ago(3));
    assert_refused(&api, "nodes may not have followed").await;
    api.remove(SERVICE);
    assert_refused(&api, "the Service leads to the pods").await;
}

#[tokio::test]
async fn sleep_is_refused_where_scale_to_zero_is_off_or_the_path_is_broken() {
    let api = idle(1);
    let failed = json!({
        "type": "ActivatorInPath", "status": "False", "reason": "NotVerified", "message": "connection timed out",
        "lastTransitionTime": LONG_AGO,
    });
    put_workload(
        &api,
        "web",
        json!({
            "replicas": 1, "route": "activators", "reason": "ScaleToZeroDisabled", "conditions": [failed],
        }),
    );
    let error = run(&api, &["sleep", "web"]).await.err().unwrap().to_string();
    for reason in ["scale-to-zero is off", "not verified (NotVerified): connection timed out"] {
        assert!(error.contains(reason), "{error}");
    }
}

// === pause and resume ===

const PAUSED: &str = "autoscaling.rouse.dev/paused";
const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web";

/// A workload of an HPA, of which a zero-scaler has reported a pause at this size.
fn of_hpa(replicas: i32, reported: i32) -> FakeApi {
    let api = idle(replicas);
    let mut workload = api.get(AUTOSCALER).unwrap();
    workload["metadata"]["ownerReferences"] = json!([{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "name": "web", "uid": "1"}]);
    workload["status"]["phase"] = json!("Paused");
    workload["status"]["replicas"] = json!(reported);
    api.put(AUTOSCALER, workload);
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"maxReplicas": 5, "scaleTargetRef": target});
    api.put(HPA, json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}));
    api
}

#[tokio::test]
async fn pause_annotates_the_hpa_with_its_end_and_keeps_the_size() {
    let api = of_hpa(2, 2);
    let before = jiff::Timestamp::now();
    let output = run(&api, &["pause", "web", "--for", "2h"]).await.unwrap();
    let hpa = api.get(HPA).unwrap();
    let end = hpa["metadata"]["annotations"][PAUSED].as_str().unwrap();
    let after = end.parse::<jiff::Timestamp>().unwrap().as_second() - before.as_second();
    assert!((7199..=7260).contains(&after), "{end}");
    assert_eq!(output.text, format!("shop/web: paused, Deployment web stays at 2 until {end}\n"));
    assert_eq!(replicas(&api), 2);
    let output = run(&api, &["resume", "web"]).await.unwrap();
    assert_eq!(output.text, "shop/web: resumed, Deployment web is at 2\n");
    assert_eq!(api.get(HPA).unwrap()["metadata"]["annotations"][PAUSED], Value::Null);
}

#[tokio::test]
async fn pause_at_a_size_writes_it_behind_the_pause() {
    let api = of_hpa(2, 0);
    let output = run(&api, &["pause", "web", "--at", "0", "-o", "json"]).await.unwrap().json();
    assert_eq!((&output["paused"], &output["size"]), (&json!("true"), &json!(0)));
    assert_eq!(replicas(&api), 0);
    let writes = api.writes();
    assert!(writes[0].contains("horizontalpodautoscalers") && writes[1].contains("/scale"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn pause_at_a_size_writes_none_that_a_request_could_change() {
    let api = of_hpa(2, 2);
    let mut workload = api.get(AUTOSCALER).unwrap();
    workload["status"]["phase"] = json!("Active");
    api.put(AUTOSCALER, workload);
    let error = run(&api, &["pause", "web", "--at", "0"]).await.err().unwrap();
    assert!(error.to_string().contains("no zero-scaler has reported the pause"), "{error}");
    assert_eq!(replicas(&api), 2);
}

#[tokio::test]
async fn user_written_pod_autoscaler_is_paused_by_its_field() {
    let api = idle(0);
    let mut workload = api.get(AUTOSCALER).unwrap();
    workload["spec"]["scaleToZero"] = json!(false);
    workload["metadata"]["annotations"] = json!({PAUSED: "true"});
    api.put(AUTOSCALER, workload);
    run(&api, &["pause", "web"]).await.unwrap();
    assert_eq!(api.get(AUTOSCALER).unwrap()["spec"]["paused"], "true");
    assert_eq!(api.get(AUTOSCALER).unwrap()["metadata"]["annotations"][PAUSED], Value::Null);
    // It may not be at zero, where nothing would wake it.
    let output = run(&api, &["resume", "web"]).await.unwrap();
    assert_eq!(output.text, "shop/web: resumed, Deployment web is at 1\n");
    assert_eq!((replicas(&api), &api.get(AUTOSCALER).unwrap()["spec"]["paused"]), (json!(1), &Value::Null));
}
