//! Those who hold requests are taken away: all activators, or all of Rouse by its namespace's deletion.

use std::time::Duration;

use serde_json::json;

use crate::harness::cluster::{ACTIVATOR, AUTOSCALER};
use crate::harness::scenario::Scenario;

#[tokio::test(start_paused = true)]
async fn who_sleeps_when_our_namespace_is_deleted_is_woken_and_reached_without_us() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.decide(0, Some(0));
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    scenario.until("its status says so", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 0).await;
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    scenario.cluster.api.put("/api/v1/namespaces/rouse-system", deleted);
    scenario.until("it is awake", |cluster| cluster.size() == 1).await;
    scenario
        .until("its pods are behind the Service", |cluster| cluster.service_endpoints() == ["10.0.0.0"])
        .await;
    scenario.advance(Duration::from_secs(120)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn who_sleeps_when_all_activators_are_lost_is_woken_after_ten_seconds_and_may_sleep_again_with_the_next()
 {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    scenario.cluster.activators(&[]);
    scenario.advance(Duration::from_secs(9)).await;
    assert_eq!(scenario.cluster.size(), 0, "an activator that is replaced is no reason");
    scenario.advance(Duration::from_secs(2)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario
        .until("its pods are behind the Service", |cluster| cluster.service_endpoints() == ["10.0.0.0"])
        .await;
    scenario.advance(Duration::from_secs(300)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1], "nobody could hold a request");
    scenario.cluster.activators(&[ACTIVATOR]);
    scenario.until("it sleeps again", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
}
