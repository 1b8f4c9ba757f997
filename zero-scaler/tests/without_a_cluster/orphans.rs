//! A workload sleeps while what had it sleep is taken away: its HPA, or the HPA's metric.

use std::time::Duration;

use fake_api::Outage;
use serde_json::json;

use crate::cluster::{AUTOSCALER, Cluster, DEPLOYMENT, HPA, NAMESPACE, SERVERLESS_SERVICE};
use crate::story::Story;

const LONG: Duration = Duration::from_secs(120);

/// As by garbage collection, once the HPA is gone.
fn collect(cluster: &Cluster) {
    cluster.api.remove(AUTOSCALER);
    cluster.api.remove(SERVERLESS_SERVICE);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_hpa_is_deleted_is_woken() {
    let mut story = Story::sleeping().await;
    story.cluster.api.remove(HPA);
    collect(&story.cluster);
    story.pass(Duration::from_secs(3)).await;
    assert_eq!(story.cluster.size(), 1);
    story.pass(LONG).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_hpa_asks_for_another_metric_is_woken_for_it() {
    let mut story = Story::sleeping().await;
    story.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"] = json!([{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    });
    story.until("it is let go", |cluster| cluster.api.get(AUTOSCALER).is_none()).await;
    story.until("it is awake", |cluster| cluster.size() == 1).await;
    story.pass(LONG).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1]);
}

/// Nobody was there to see its PodAutoscaler go.
#[tokio::test(start_paused = true)]
async fn a_sleeper_that_was_let_go_before_we_started_is_woken() {
    let mut story = Story::sleeping().await;
    story.cluster.api.set_outage(Some(Outage::Hanging));
    story.cluster.api.remove(HPA);
    collect(&story.cluster);
    story.until("it is awake", |cluster| cluster.size() == 1).await;
    assert_eq!(story.lost, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_whose_podautoscaler_comes_back_sleeps_on() {
    let mut story = Story::sleeping().await;
    collect(&story.cluster);
    story.until("it is made anew", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
    story.pass(LONG).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn in_a_namespace_that_is_being_deleted_nobody_is_woken() {
    let mut story = Story::sleeping().await;
    story.cluster.api.put(NAMESPACE, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    story.cluster.api.remove(HPA);
    collect(&story.cluster);
    story.pass(LONG).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn who_was_put_to_zero_by_somebody_else_stays_there_without_its_hpa() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.idle();
    story.cluster.edit(DEPLOYMENT, |object| {
        object["spec"]["replicas"] = 0.into();
        object["metadata"]["managedFields"] =
            json!([{"manager": "kubectl", "operation": "Update", "subresource": "scale",
                "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
    });
    story.settle().await;
    story.cluster.api.remove(HPA);
    collect(&story.cluster);
    story.pass(LONG).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0]);
}
