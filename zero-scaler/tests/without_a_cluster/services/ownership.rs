//! Two workloads that name one Service, or one thing to scale.

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const OTHER_HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web-2";
const OTHER_DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web-2";
const OTHER_AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web-2";
const OTHER_SERVERLESS_SERVICE: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/web-2";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-ipv4";

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

fn written_for(cluster: &Cluster) -> Value {
    cluster.field(SLICE, "/metadata/labels/autoscaling.rouse.dev~1workload")
}

#[tokio::test(start_paused = true)]
async fn of_two_workloads_on_one_service_the_older_has_it_and_the_other_says_so() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario
        .until("it is said", |cluster| {
            let why = condition(cluster, OTHER_AUTOSCALER, "Ready");
            why.contains("ServiceTaken") && why.contains("the workload web already")
        })
        .await;
    scenario.settle().await;
    assert_eq!(written_for(&scenario.cluster), "web");
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    scenario.decide_idle();
    scenario.until("it sleeps all the same", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn whom_no_request_can_reach_gives_its_service_to_the_other() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario.settle().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/reachability"] = "Unreachable".into();
    });
    scenario.until("the other has it", |cluster| written_for(cluster) == "web-2").await;
    scenario.settle().await;
    assert!(condition(&scenario.cluster, SERVERLESS_SERVICE, "Ready").contains("ServiceTaken"));
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/reachability"] = "Reachable".into();
    });
    scenario.until("it has it back", |cluster| written_for(cluster) == "web").await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_left_of_the_two_has_the_service() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    add_other(&scenario.cluster);
    scenario.settle().await;
    // Garbage collection takes what is below.
    [HPA, AUTOSCALER, SERVERLESS_SERVICE].iter().for_each(|path| scenario.cluster.api.remove(path));
    scenario.until("the other has it", |cluster| written_for(cluster) == "web-2").await;
    scenario
        .until("it says so", |cluster| {
            cluster.field(OTHER_SERVERLESS_SERVICE, "/status/mode").is_string()
                && !condition(cluster, OTHER_SERVERLESS_SERVICE, "Ready").contains("ServiceTaken")
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn of_two_workloads_on_one_target_the_older_writes_its_size() {
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
        .until("it is said", |cluster| {
            let why = condition(cluster, OTHER_AUTOSCALER, "Ready");
            why.contains("TargetTaken") && why.contains("the workload web scales")
        })
        .await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    [HPA, AUTOSCALER, SERVERLESS_SERVICE].iter().for_each(|path| scenario.cluster.api.remove(path));
    scenario.until("it may write", |cluster| cluster.size() == 3).await;
}
