//! Schedules: a minimum by time, without any request. The scenario begins at 14:13:20 UTC.

use std::time::Duration;

use simulator::hpa::Behavior;

use crate::harness::cluster::{AUTOSCALER, HPA};
use crate::harness::scenario::Scenario;

const SCHEDULE: &str = "autoscaling.rouse.dev/schedule";

#[tokio::test(start_paused = true)]
async fn direct_workload_has_the_minimum_within_its_window() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.cluster.edit(AUTOSCALER, |object| {
        object["metadata"]["annotations"][SCHEDULE] = "14:16-14:20: 3".into();
    });
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    scenario.until("the minimum", |cluster| cluster.size() == 3).await;
    scenario.settle().await;
    let status = |field: &str| format!("/status/{field}");
    assert_eq!(scenario.cluster.field(AUTOSCALER, &status("reason")), "ScheduledMinimum");
    assert_eq!(scenario.cluster.field(AUTOSCALER, &status("schedule/minimum")), 3);
    assert_eq!(scenario.cluster.field(AUTOSCALER, &status("schedule/nextChange")), "2026-09-21T14:20:00Z");
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario.settle().await;
    // The size 1 before zero may be too short to be observed: activators are in the path already.
    let sizes = scenario.cluster.observed().sizes.clone();
    assert_eq!((&sizes[..3], sizes.last()), ([1, 0, 3].as_slice(), Some(&0)));
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn workload_with_hpa_has_the_minimum_within_its_window() {
    let mut scenario = Scenario::with_hpa(1, 50, Some(Behavior::like_the_kpa(Duration::ZERO)));
    scenario.cluster.edit(HPA, |object| {
        object["metadata"]["annotations"][SCHEDULE] = "14:16-14:20: 3".into();
    });
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    // What the metrics-adapter adds to the metric in the window.
    scenario.set_scheduled_minimum(3);
    scenario.until("the minimum", |cluster| cluster.size() == 3).await;
    scenario.advance(Duration::from_secs(60)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 3]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
    // The HPA corrects a size below it.
    scenario.cluster.scale(1);
    scenario.until("the minimum again", |cluster| cluster.size() == 3).await;
    assert_eq!(scenario.cluster.scale_writes(), 2);
    scenario
        .until("the end of the window", |cluster| cluster.field(AUTOSCALER, "/status/schedule/minimum") == 0)
        .await;
    scenario.set_scheduled_minimum(0);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
