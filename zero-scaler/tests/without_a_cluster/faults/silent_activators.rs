//! Activators that are ready and do not report: they may carry any request.

use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::CARRIED_WORKLOADS;
use autoscaler::stats::CarriedWorkloads;
use serde_json::json;

use crate::harness::cluster::{ACTIVATOR, AUTOSCALER};
use crate::harness::scenario::Scenario;

const SILENT: &str = "10.0.9.8";

/// Two activators that listen, in front of a workload that the adapter decides to be idle.
async fn two_activators() -> Scenario {
    let mut scenario = Scenario::new(1);
    scenario.cluster.start_activator(SILENT);
    scenario.cluster.activators(&[ACTIVATOR, SILENT]);
    scenario.until_serving().await;
    scenario
}

#[tokio::test(start_paused = true)]
async fn silent_activator_keeps_workload_above_zero_until_it_left_for_a_drain() {
    let mut scenario = two_activators().await;
    scenario.silent = vec!["activator-1"];
    scenario.advance(Duration::from_secs(4)).await;
    scenario.decide_idle();
    scenario
        .until("the reason", |cluster| cluster.field(AUTOSCALER, "/status/reason") == "ActivatorSilent")
        .await;
    let message = scenario.cluster.field(AUTOSCALER, "/status/message");
    assert!(message.as_str().unwrap().starts_with("activator activator-1 does not report"), "{message}");
    scenario.advance(Duration::from_secs(230)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario.until("the other activator alone", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    assert_eq!(scenario.cluster.observed().lost_requests, [""; 0]);
    scenario.silent.clear();
    scenario.until("both activators", |cluster| cluster.service_endpoints() == [SILENT, ACTIVATOR]).await;
}

#[tokio::test(start_paused = true)]
async fn workload_goes_to_zero_at_once_when_activator_reports_again() {
    let mut scenario = two_activators().await;
    scenario.silent = vec!["activator-0"];
    scenario.advance(Duration::from_secs(4)).await;
    scenario.decide_idle();
    scenario.advance(Duration::from_secs(100)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.silent.clear();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [SILENT, ACTIVATOR]);
}

#[tokio::test(start_paused = true)]
async fn all_activators_stay_and_no_workload_sleeps_if_none_reports() {
    let mut scenario = two_activators().await;
    scenario.silent = vec!["activator-0", "activator-1"];
    scenario.advance(Duration::from_secs(4)).await;
    scenario.decide_idle();
    scenario.advance(Duration::from_secs(600)).await;
    assert_eq!((scenario.cluster.size(), scenario.cluster.observed().sizes.clone()), (1, vec![1]));
}

#[tokio::test(start_paused = true)]
async fn requests_that_silent_activator_published_live_and_workload_sleeps_when_they_ended() {
    const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/activator-1";
    let mut scenario = two_activators().await;
    scenario.silent = vec!["activator-1"];
    scenario.advance(Duration::from_secs(4)).await;
    scenario.decide_idle();
    let publish = |scenario: &Scenario, workloads: &str| {
        let labels = json!({"app.kubernetes.io/name": "activator"});
        let metadata = json!({"labels": labels, "annotations": {CARRIED_WORKLOADS: workloads}});
        scenario.cluster.api.put(LEASE, json!({"metadata": metadata}));
    };
    publish(&scenario, "shop/web shop/api");
    scenario.advance(Duration::from_secs(3600)).await;
    assert_eq!(scenario.cluster.size(), 1);
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "it left all the same");
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/reason"), "ActivatorSilent");
    let message = scenario.cluster.field(AUTOSCALER, "/status/message");
    assert!(message.as_str().unwrap().starts_with("activator activator-1 cannot report"), "{message}");
    publish(&scenario, "*");
    scenario.advance(Duration::from_secs(60)).await;
    assert_eq!(scenario.cluster.size(), 1);
    publish(&scenario, "shop/api");
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_silent_activator_reported_last_live_until_it_reports_their_end() {
    let mut scenario = two_activators().await;
    scenario.carried = CarriedWorkloads::new([Key::new("shop", "web")]);
    scenario.advance(Duration::from_secs(4)).await;
    scenario.silent = vec!["activator-1"];
    scenario.advance(Duration::from_secs(4)).await;
    scenario.carried = CarriedWorkloads::none();
    scenario.decide_idle();
    // The API server is out of its reach, so it publishes nothing.
    scenario.advance(Duration::from_secs(3600)).await;
    assert_eq!(scenario.cluster.size(), 1);
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "it left all the same");
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/reason"), "ActivatorSilent");
    scenario.silent.clear();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, [""; 0]);
}
