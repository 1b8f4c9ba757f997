//! A Service that gets a selector, so that Kubernetes writes its endpoints from then on.

use serde_json::json;

use crate::harness::cluster::{ACTIVATOR, AUTOSCALER, SERVICE, condition};
use crate::harness::scenario::Scenario;

const OWN_SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-managed-ipv4";

/// Kubernetes writes its slices a moment after the change.
#[tokio::test(start_paused = true)]
async fn service_of_plain_pods_is_never_without_endpoints() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.plain_pods();
    scenario.until("activators", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.settle().await;
    scenario.cluster.delay_slices(true);
    scenario.cluster.attached();
    scenario
        .until("the condition", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("ServiceHasSelector")
        })
        .await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "Kubernetes wrote none yet");
    scenario.cluster.delay_slices(false);
    scenario.until("the pods", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    assert_eq!(scenario.cluster.api.get(OWN_SLICE), None);
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("ServiceHasSelector"));
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn service_past_its_sidecars_is_never_without_endpoints() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.delay_slices(true);
    scenario.cluster.edit(SERVICE, |service| {
        service["spec"]["selector"] = json!({"app": "web"});
        service["spec"]["ports"][0]["targetPort"] = json!(3000);
    });
    scenario.settle().await;
    assert!(scenario.cluster.api.get(OWN_SLICE).is_some(), "Kubernetes wrote none yet");
    scenario.cluster.delay_slices(false);
    scenario.until("slices of Kubernetes alone", |cluster| cluster.api.get(OWN_SLICE).is_none()).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// The installation is gone, and its slice leads to a pod that a rollout replaced.
#[tokio::test(start_paused = true)]
async fn service_that_outlived_rouse_is_served_by_kubernetes_once_it_has_a_selector() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.stop();
    scenario.settle().await;
    assert!(scenario.cluster.api.get(OWN_SLICE).is_some());
    scenario.cluster.attached();
    scenario.settle().await;
    assert_eq!(scenario.cluster.api.get(OWN_SLICE), None);
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
