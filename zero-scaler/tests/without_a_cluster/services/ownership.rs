//! Two workloads with the same Service or the same target.

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const OTHER_HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web-2";
const OTHER_DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web-2";
const OTHER_AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web-2";
const OTHER_SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web-2";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-managed-ipv4";

/// A second HPA for the Service, with a Deployment of its own.
fn add_other(cluster: &Cluster) {
    let mut deployment = cluster.api.get(crate::harness::cluster::DEPLOYMENT).unwrap();
    deployment["metadata"] = json!({});
    deployment["spec"]["selector"]["matchLabels"] = json!({"app": "web-2"});
    cluster.api.put(OTHER_DEPLOYMENT, deployment);
    let mut hpa = cluster.api.get(HPA).unwrap();
    hpa["metadata"] = json!({"annotations": hpa["metadata"]["annotations"]});
    hpa["spec"]["scaleTargetRef"]["name"] = "web-2".into();
    cluster.api.put(OTHER_HPA, hpa);
}

fn service_owner(cluster: &Cluster) -> Value {
    cluster.field(SLICE, "/metadata/labels/autoscaling.rouse.dev~1workload")
}

#[tokio::test(start_paused = true)]
async fn older_workload_owns_the_service_and_the_other_reports_it() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario
        .until("the condition", |cluster| {
            let reason = condition(cluster, OTHER_AUTOSCALER, "Ready");
            reason.contains("ServiceTaken") && reason.contains(r#"belongs to workload \"web\""#)
        })
        .await;
    scenario.settle().await;
    assert_eq!(service_owner(&scenario.cluster), "web");
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn unreachable_workload_yields_the_service_to_the_other() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario.settle().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/reachability"] = "Unreachable".into();
    });
    scenario.until("the other workload owns the Service", |cluster| service_owner(cluster) == "web-2").await;
    scenario.settle().await;
    assert!(condition(&scenario.cluster, SERVERLESS_SERVICE, "Ready").contains("ServiceTaken"));
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/reachability"] = "Reachable".into();
    });
    scenario.until("the first workload owns the Service", |cluster| service_owner(cluster) == "web").await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn remaining_workload_owns_the_service() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario.settle().await;
    // Including what garbage collection deletes after the HPA.
    [HPA, AUTOSCALER, SERVERLESS_SERVICE].iter().for_each(|path| scenario.cluster.api.remove(path));
    scenario.until("the other workload owns the Service", |cluster| service_owner(cluster) == "web-2").await;
    scenario
        .until("the condition to clear", |cluster| {
            cluster.field(OTHER_SERVERLESS_SERVICE, "/status/mode").is_string()
                && !condition(cluster, OTHER_SERVERLESS_SERVICE, "Ready").contains("ServiceTaken")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn older_of_two_workloads_writes_the_size_of_their_target() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let target = scenario.cluster.field(HPA, "/spec/scaleTargetRef");
    scenario.cluster.api.put(
        OTHER_AUTOSCALER,
        json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
            "spec": {"scaleTargetRef": target, "service": "elsewhere", "target": "10", "scaler": "Direct",
                "minReplicas": 3, "maxReplicas": 5}}),
    );
    scenario
        .until("the condition", |cluster| {
            let reason = condition(cluster, OTHER_AUTOSCALER, "Ready");
            reason.contains("TargetTaken") && reason.contains("workload web scales")
        })
        .await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    [HPA, AUTOSCALER, SERVERLESS_SERVICE].iter().for_each(|path| scenario.cluster.api.remove(path));
    scenario.until("the size of the other workload", |cluster| cluster.size() == 3).await;
}
