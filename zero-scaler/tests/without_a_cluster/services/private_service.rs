//! The private Service of a workload, which exists while there are pods to select.

use std::time::Duration;

use serde_json::json;

use crate::harness::cluster::{
    ACTIVATOR, AUTOSCALER, Cluster, PRIVATE_SERVICE, SERVERLESS_SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const SERVICES: &str = "/api/v1/namespaces/shop/services";
const QUOTA: &str = "is forbidden: exceeded quota: services";

/// A workload that has been at zero for so long that it has no private Service.
async fn long_at_zero() -> Scenario {
    let mut scenario = Scenario::at_zero().await;
    scenario.until_absent(11 * MINUTE).await;
    scenario
}

impl Scenario {
    /// Waits until the private Service is deleted, and the controllers have settled.
    async fn until_absent(&mut self, longest: Duration) {
        self.advance(longest).await;
        self.settle().await;
        assert_eq!(self.cluster.api.get(PRIVATE_SERVICE), None);
    }
}

fn assert_no_request_was_lost(cluster: &Cluster) {
    assert_eq!(cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn private_service_is_deleted_at_zero_and_created_by_the_wake() {
    let mut scenario = Scenario::at_zero().await;
    scenario.advance(5 * MINUTE).await;
    assert!(scenario.cluster.api.get(PRIVATE_SERVICE).is_some(), "it may wake soon");
    scenario.restart();
    scenario.until_absent(6 * MINUTE).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.poke();
    scenario.decide(1, None);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
    assert_no_request_was_lost(&scenario.cluster);
}

#[tokio::test(start_paused = true)]
async fn new_workload_at_zero_gets_no_private_service() {
    let mut scenario = Scenario::new(0);
    scenario.cluster.scale(0);
    scenario.decide_idle();
    scenario.restart();
    scenario.until("activators", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.settle().await;
    let writes = scenario.cluster.api.writes();
    let of_services: Vec<_> = writes.iter().filter(|write| write.contains(SERVICES)).collect();
    assert_eq!((of_services, scenario.cluster.observed().sizes.clone()), (vec![], vec![0]));
    scenario.decide(1, None);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}

/// While it exists, the API server refuses another of its name.
#[tokio::test(start_paused = true)]
async fn wake_is_served_by_activators_when_a_user_took_the_name_at_zero() {
    let mut scenario = long_at_zero().await;
    let spec = json!({"clusterIP": "10.96.0.77", "selector": {"app": "bank"}, "ports": [{"port": 443}]});
    scenario.cluster.api.put(PRIVATE_SERVICE, json!({"spec": spec}));
    let is_reported =
        |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready").contains("PrivateServiceTaken");
    scenario.until("the condition", is_reported).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.poke();
    scenario.decide(1, None);
    scenario.until("a pod", |cluster| cluster.size() == 1).await;
    scenario.advance(MINUTE).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    assert_eq!(scenario.cluster.api.get(PRIVATE_SERVICE).unwrap()["spec"], spec);
    scenario.cluster.api.remove(PRIVATE_SERVICE);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_no_request_was_lost(&scenario.cluster);
}

#[tokio::test(start_paused = true)]
async fn wake_is_served_by_activators_when_the_quota_is_full() {
    let mut scenario = long_at_zero().await;
    scenario.cluster.api.refuse_writes(SERVICES, Some(QUOTA));
    scenario.poke();
    scenario.decide(1, None);
    let is_reported = |cluster: &Cluster| condition(cluster, SERVERLESS_SERVICE, "Ready").contains(QUOTA);
    scenario.until("the condition", is_reported).await;
    scenario.advance(MINUTE).await;
    assert_eq!(
        (scenario.cluster.size(), scenario.cluster.service_endpoints()),
        (1, vec![ACTIVATOR.to_owned()])
    );
    scenario.cluster.api.refuse_writes(SERVICES, None);
    scenario.until_serving().await;
    assert_no_request_was_lost(&scenario.cluster);
}

/// Requests then go to pods alone: to those that start, and to others with the labels.
#[tokio::test(start_paused = true)]
async fn loss_of_all_activators_creates_the_private_service_before_the_wake() {
    let mut scenario = long_at_zero().await;
    scenario.cluster.activators(&[]);
    scenario.until("the private Service", |cluster| cluster.api.get(PRIVATE_SERVICE).is_some()).await;
    assert_eq!(scenario.cluster.size(), 0);
    scenario.until("a pod", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
}
