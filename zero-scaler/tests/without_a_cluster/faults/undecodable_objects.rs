//! Objects that do not fit the types of this version, as another version may have stored them.

use serde_json::json;

use crate::harness::cluster::{AUTOSCALER, HPA, SERVERLESS_SERVICE, SERVICE, condition};
use crate::harness::scenario::Scenario;

/// Beyond an `i32` and a `u32`.
const TOO_LARGE: i64 = 5_000_000_000;

#[tokio::test(start_paused = true)]
async fn undecodable_objects_of_every_kind_leave_the_others_managed() {
    let mut scenario = Scenario::new(0);
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "bad"});
    let rouse = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/other";
    for (path, spec) in [
        (
            "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/bad",
            json!({"scaleTargetRef": scaled, "maxReplicas": TOO_LARGE}),
        ),
        ("/api/v1/namespaces/shop/services/bad", json!({"type": 5})),
        ("/apis/apps/v1/namespaces/shop/deployments/bad", json!({"replicas": TOO_LARGE})),
        ("/apis/apps/v1/namespaces/shop/statefulsets/bad", json!({"replicas": TOO_LARGE})),
        (
            &format!("{rouse}/podautoscalers/bad"),
            json!({"scaleTargetRef": scaled, "service": "bad", "maxReplicas": TOO_LARGE}),
        ),
        (
            &format!("{rouse}/serverlessservices/bad"),
            json!({"service": "bad", "selector": "", "mode": "Proxy", "numActivators": TOO_LARGE}),
        ),
        (&format!("{rouse}/metrics/bad"), json!({"service": 5})),
    ] {
        scenario.cluster.api.put(path, json!({"spec": spec}));
    }
    let slice = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/bad";
    scenario.cluster.api.put(slice, json!({"addressType": "IPv4", "endpoints": TOO_LARGE}));
    scenario.restart();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn workload_keeps_its_settings_while_its_hpa_is_undecodable() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let before = scenario.cluster.field(AUTOSCALER, "/spec");
    scenario.cluster.edit(HPA, |hpa| hpa["spec"]["maxReplicas"] = TOO_LARGE.into());
    scenario
        .until("condition HPAUndecodable", |cluster| {
            condition(cluster, AUTOSCALER, "HPAAccepted").contains("HPAUndecodable")
        })
        .await;
    scenario.restart();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/spec"), before);
    scenario.cluster.max_replicas(7);
    scenario.until("the new bound", |cluster| cluster.field(AUTOSCALER, "/spec/maxReplicas") == 7).await;
    scenario.settle().await;
    assert!(condition(&scenario.cluster, AUTOSCALER, "HPAAccepted").starts_with("\"True\""));
}

#[tokio::test(start_paused = true)]
async fn undecodable_service_keeps_its_endpoints_after_a_restart() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let endpoints = scenario.cluster.service_endpoints();
    assert!(!endpoints.is_empty());
    scenario.cluster.edit(SERVICE, |service| service["spec"]["type"] = 5.into());
    scenario.restart();
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), endpoints);
    assert_eq!(scenario.cluster.field(SERVERLESS_SERVICE, "/status/mode"), "Serve");
}
