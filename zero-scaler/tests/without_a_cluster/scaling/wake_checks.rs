//! Workloads whose next pod would not serve: they stay above zero, and their owner sees why.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, DEPLOYMENT, REPLICA_SET, condition};
use crate::harness::scenario::Scenario;

const PODS: &str = "/api/v1/namespaces/shop/pods";

/// A workload with a ready pod, of which the API server has an object.
async fn serving() -> Scenario {
    serving_from(Scenario::new(1)).await
}

async fn serving_from(mut scenario: Scenario) -> Scenario {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    scenario.cluster.api.put(
        &format!("{PODS}/web-1"),
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Running", "conditions": ready}}),
    );
    scenario.until_serving().await;
    scenario
}

async fn until_blocked(scenario: &mut Scenario, reason: &str, cause: &str) {
    scenario.decide_idle();
    let reported = |cluster: &_| {
        let degraded = condition(cluster, AUTOSCALER, "Degraded");
        degraded.contains(reason) && degraded.contains(cause)
    };
    scenario.until("the condition", reported).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/reason"), reason);
    assert!(!scenario.cluster.events(reason).is_empty(), "an event");
    assert_eq!(scenario.cluster.observed().sizes, [1]);
}

fn set_status(scenario: &Scenario, status: &Value) {
    scenario.cluster.edit(DEPLOYMENT, |deployment| deployment["status"] = status.clone());
}

#[tokio::test(start_paused = true)]
async fn rollout_keeps_the_pods_that_serve_until_it_is_complete() {
    let mut scenario = serving().await;
    set_status(&scenario, &json!({"observedGeneration": 9, "replicas": 2, "updatedReplicas": 1}));
    until_blocked(&mut scenario, "RolloutIncomplete", "1 of 2 pods have the newest template").await;
    set_status(&scenario, &json!({"observedGeneration": 9, "replicas": 1, "updatedReplicas": 1}));
    scenario.until_at_zero().await;
    assert_eq!(condition(&scenario.cluster, AUTOSCALER, "Degraded"), "");
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn refused_dry_run_keeps_the_last_pod() {
    let mut scenario = serving().await;
    let refusal = "pods \"web-\" is forbidden: maximum cpu usage per Container is 100m";
    scenario.cluster.api.refuse_writes(PODS, Some(refusal));
    until_blocked(&mut scenario, "PodsRefused", "maximum cpu usage per Container is 100m").await;
    let checks = || scenario.cluster.api.writes().iter().filter(|write| write.contains("/pods")).count();
    let before = checks();
    scenario.cluster.api.refuse_writes(PODS, None);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    let checks = scenario.cluster.api.writes().iter().filter(|write| write.contains("/pods")).count();
    assert!(checks - before <= 3, "{checks} requests");
}

/// No check is due while there are requests, so the end of the problem has to be no reason for
/// another reconcile.
#[tokio::test(start_paused = true)]
async fn problem_that_ends_while_there_are_requests_leaves_the_reconciler_idle() {
    let mut scenario = serving().await;
    scenario.cluster.api.refuse_writes(PODS, Some("pods \"web-\" is forbidden: too large"));
    until_blocked(&mut scenario, "PodsRefused", "too large").await;
    scenario.decide(1, None);
    scenario.advance(Duration::from_secs(60)).await;
    let serves = |cluster: &_| condition(cluster, AUTOSCALER, "Degraded").is_empty();
    scenario.until("no problem", serves).await;
}

/// Requests of a pool reach the pods past the activators: at zero they would be lost.
#[tokio::test(start_paused = true)]
async fn inference_pool_of_the_pods_keeps_the_last_one() {
    for (group, selector) in [
        ("inference.networking.k8s.io/v1", json!({"matchLabels": {"app": "web"}})),
        ("inference.networking.x-k8s.io/v1alpha2", json!({"app": "web"})),
    ] {
        let mut scenario = serving().await;
        let pool = |selector: &Value| json!({"metadata": {"name": "llm"}, "spec": {"selector": selector}});
        let path = |name: &str| format!("/apis/{group}/namespaces/shop/inferencepools/{name}");
        scenario.cluster.api.put(&path("other"), pool(&json!({"app": "other"})));
        scenario.cluster.api.put(&path("llm"), pool(&selector));
        until_blocked(&mut scenario, "InferencePoolBypass", "selects the pods, and its requests").await;
        scenario.cluster.api.remove(&path("llm"));
        scenario.until_at_zero().await;
    }
}

#[tokio::test(start_paused = true)]
async fn full_quota_does_not_keep_the_pods_that_fill_it() {
    let mut scenario = serving().await;
    let full =
        "pods \"web-\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1";
    scenario.cluster.api.refuse_writes(PODS, Some(full));
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn right_that_the_zero_scaler_lacks_does_not_keep_the_last_pod() {
    let mut scenario = serving().await;
    let message = "pods is forbidden: User \"zero-scaler\" cannot create resource \"pods\" in API group \"\"";
    scenario.cluster.api.refuse_writes(PODS, Some(message));
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn webhook_without_dry_runs_does_not_keep_the_last_pod() {
    let mut scenario = serving().await;
    let message = "admission webhook \"mesh.example.com\" does not support dry run";
    scenario.cluster.api.fail_writes(PODS, http::StatusCode::BAD_REQUEST, message);
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn replica_set_keeps_its_pod_of_a_former_template() {
    let scenario = Scenario::new(1);
    scenario.cluster.scale_a_replica_set();
    let set_image = |scenario: &Scenario, image: Value| {
        scenario.cluster.edit(REPLICA_SET, |set| {
            set["spec"]["template"]["spec"]["containers"] = json!([{"name": "app", "image": image}]);
        });
    };
    set_image(&scenario, json!("v2"));
    let mut scenario = serving_from(scenario).await;
    until_blocked(&mut scenario, "RolloutIncomplete", "delete pod web-1").await;
    // As it was.
    set_image(&scenario, Value::Null);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn newest_pod_that_does_not_start_keeps_the_older_one() {
    let mut scenario = serving().await;
    let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "not found"}});
    let container = json!({"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": waiting});
    scenario.cluster.api.put(
        &format!("{PODS}/web-2"),
        json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": "2026-01-01T00:01:00Z"},
            "spec": {"containers": [{"name": "app"}]},
            "status": {"phase": "Pending", "containerStatuses": [container]}}),
    );
    until_blocked(&mut scenario, "NewestPodNotReady", "ImagePullBackOff: not found").await;
}
