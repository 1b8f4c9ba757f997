//! A Service that loses its selector, so that Rouse manages its endpoints from then on.

use std::time::Duration;

use crate::harness::cluster::{AUTOSCALER, ENDPOINTS, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const LEFTOVER: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-IPv4-0";
const OTHER: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-mesh";

/// A workload that serves, and whose Service selects its pods.
async fn attached() -> Scenario {
    let mut scenario = Scenario::new(1);
    scenario.cluster.attached();
    scenario.until_serving().await;
    scenario
}

#[tokio::test(start_paused = true)]
async fn service_without_selector_has_no_endpoints_of_kubernetes_left() {
    let mut scenario = attached().await;
    scenario.cluster.make_managed();
    scenario
        .until("one slice", |cluster| cluster.slices() == [1] && cluster.api.get(ENDPOINTS).is_none())
        .await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.api.get(LEFTOVER), None);
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("Serving"));
    assert_eq!(scenario.cluster.notes("NotReady"), Vec::<String>::new());
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn keeps_endpoints_of_kubernetes_until_own_slice_serves() {
    let mut scenario = attached().await;
    scenario.cluster.activators(&[]);
    scenario.settle().await;
    scenario.cluster.make_managed();
    // The private Service gets no endpoints.
    scenario.cluster.set_sidecars(false);
    scenario.advance(MINUTE).await;
    assert!(scenario.cluster.api.get(LEFTOVER).is_some() && scenario.cluster.api.get(ENDPOINTS).is_some());
    scenario.cluster.set_sidecars(true);
    scenario.until("one slice", |cluster| cluster.slices() == [1]).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn keeps_and_reports_endpoints_of_other_managers() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.user_written_endpoints();
    scenario.cluster.slice_of_other_manager(OTHER);
    scenario
        .until("the condition", |cluster| {
            let ready = condition(cluster, SERVERLESS_SERVICE, "Ready");
            ready.contains("ForeignEndpoints")
                && ready.contains(
                    r#"delete EndpointSlice \"web-mesh\" of \"mesh.example.com\" and Endpoints \"web\""#,
                )
        })
        .await;
    scenario.settle().await;
    assert!(scenario.cluster.api.get(ENDPOINTS).is_some() && scenario.cluster.api.get(OTHER).is_some());
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("ForeignEndpoints"));
    [ENDPOINTS, OTHER].iter().for_each(|path| scenario.cluster.api.remove(path));
    scenario
        .until("the condition to clear", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("Serving")
        })
        .await;
}
