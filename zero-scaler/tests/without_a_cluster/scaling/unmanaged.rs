//! A workload is at zero when it loses its HPA or the HPA loses its metric.

use std::time::Duration;

use fake_api::Outage;
use serde_json::json;

use crate::harness::cluster::{
    AUTOSCALER, Cluster, DEPLOYMENT, HPA, NAMESPACE, SERVERLESS_SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const LONG: Duration = Duration::from_secs(120);

/// Deletes what garbage collection would delete after the HPA.
fn collect(cluster: &Cluster) {
    cluster.api.remove(AUTOSCALER);
    cluster.api.remove(SERVERLESS_SERVICE);
}

#[tokio::test(start_paused = true)]
async fn scales_up_workload_at_zero_when_hpa_is_deleted() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(Duration::from_secs(3)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn scales_up_workload_at_zero_when_hpa_changes_metric() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"] = json!([{"type": "Resource", "resource":
            {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]);
    });
    scenario.until("no PodAutoscaler", |cluster| cluster.api.get(AUTOSCALER).is_none()).await;
    scenario.until("one replica", |cluster| cluster.size() == 1).await;
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
}

/// No zero-scaler runs while its PodAutoscaler is deleted.
#[tokio::test(start_paused = true)]
async fn scales_up_workload_that_was_released_before_start() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.set_outage(Some(Outage::Hanging));
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.until("one replica", |cluster| cluster.size() == 1).await;
    assert_eq!(scenario.crashes, 1);
}

#[tokio::test(start_paused = true)]
async fn keeps_workload_at_zero_when_podautoscaler_is_recreated() {
    let mut scenario = Scenario::at_zero().await;
    collect(&scenario.cluster);
    scenario.until("a new PodAutoscaler", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}

/// By a quota or a policy, or because the kind is not served any more.
#[tokio::test(start_paused = true)]
async fn scales_up_workload_at_zero_whose_hpa_gets_no_podautoscaler() {
    for gadget in [false, true] {
        let mut scenario = Scenario::new(1);
        if gadget {
            scenario.cluster.scale_a_gadget();
        }
        scenario.until_serving().await;
        scenario.until_at_zero().await;
        let path = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers";
        scenario.cluster.api.refuse_writes(path, Some("is forbidden: exceeded quota: small"));
        collect(&scenario.cluster);
        scenario.advance(Duration::from_secs(30)).await;
        assert_eq!(scenario.cluster.size(), 1, "custom resource: {gadget}");
        scenario.cluster.api.refuse_writes(path, None);
        scenario.until("a new PodAutoscaler", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
        scenario.until_at_zero().await;
    }
}

/// The size is written before the status that has it.
#[tokio::test(start_paused = true)]
async fn scales_up_custom_resource_whose_podautoscaler_is_deleted_before_it_reports_zero() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.scale_a_gadget();
    scenario.until_serving().await;
    scenario.decide_idle();
    let is_inactive = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Active").starts_with("\"False\"");
    scenario.until("Inactive", is_inactive).await;
    scenario.cluster.api.refuse_writes(&format!("{AUTOSCALER}/status"), Some("is forbidden: policy"));
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_ne!(scenario.cluster.field(AUTOSCALER, "/status/replicas"), 0);
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(Duration::from_secs(5)).await;
    assert_eq!(scenario.cluster.size(), 1);
}

#[tokio::test(start_paused = true)]
async fn keeps_workload_at_zero_in_terminating_namespace() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.put(NAMESPACE, json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    scenario.cluster.api.remove(HPA);
    collect(&scenario.cluster);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn keeps_at_zero_what_another_client_scaled_to_zero() {
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
