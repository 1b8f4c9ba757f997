//! A workload sleeps while what had it sleep is taken away: its HPA, or the HPA's metric.

use std::time::Duration;

use fake_api::Outage;
use serde_json::json;

use crate::harness::cluster::{AUTOSCALER, Cluster, DEPLOYMENT, HPA, NAMESPACE, SERVERLESS_SERVICE};
use crate::harness::scenario::Scenario;

const LONG: Duration = Duration::from_secs(120);

/// As by garbage collection, once the HPA is gone.
fn collect(cluster: &Cluster) {
    cluster.api.remove(AUTOSCALER);
    cluster.api.remove(SERVERLESS_SERVICE);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_hpa_is_deleted_is_woken() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(Duration::from_secs(3)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_hpa_asks_for_another_metric_is_woken_for_it() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"] = json!([{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    });
    scenario.until("it is let go", |cluster| cluster.api.get(AUTOSCALER).is_none()).await;
    scenario.until("it is awake", |cluster| cluster.size() == 1).await;
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
}

/// Nobody was there to see its PodAutoscaler go.
#[tokio::test(start_paused = true)]
async fn a_sleeper_that_was_let_go_before_we_started_is_woken() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.set_outage(Some(Outage::Hanging));
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.until("it is awake", |cluster| cluster.size() == 1).await;
    assert_eq!(scenario.crashes, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_podautoscaler_comes_back_sleeps_on() {
    let mut scenario = Scenario::at_zero().await;
    collect(&scenario.cluster);
    scenario.until("it is made anew", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_is_being_deleted_nobody_is_woken() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.put(NAMESPACE, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn who_was_put_to_zero_by_somebody_else_stays_there_without_its_hpa() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.cluster.edit(DEPLOYMENT, |object| {
        object["spec"]["replicas"] = 0.into();
        object["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "operation": "Update", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    });
    scenario.settle().await;
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}
