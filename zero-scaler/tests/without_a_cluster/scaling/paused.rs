//! A pause: the size stays, whatever requests, schedules and sizes of other writers ask for. The
//! scenario begins at 14:13:20 UTC.

use std::time::Duration;

use serde_json::Value;

use crate::harness::cluster::{AUTOSCALER, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

/// Annotates the HPA, as `kubectl rouse pause` does.
async fn pause(scenario: &mut Scenario, value: &str) {
    scenario.cluster.edit(HPA, |object| {
        object["metadata"]["annotations"]["autoscaling.rouse.dev/paused"] = value.into();
    });
    scenario.until("the pause", |cluster| cluster.field(AUTOSCALER, "/status/phase") == "Paused").await;
    scenario.settle().await;
}

#[tokio::test(start_paused = true)]
async fn paused_workload_at_zero_is_woken_by_nothing_until_its_end() {
    let mut scenario = Scenario::at_zero().await;
    pause(&mut scenario, "2026-09-21T14:35:00Z").await;
    let spec = |scenario: &Scenario, field: &str| scenario.cluster.field(SERVERLESS_SERVICE, field);
    assert_eq!(spec(&scenario, "/spec/paused"), true);
    assert_eq!(spec(&scenario, "/spec/pausedUntil"), "2026-09-21T14:35:00Z");
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("PausedByAnnotation"));
    scenario.cluster.edit(HPA, |object| {
        object["metadata"]["annotations"]["autoscaling.rouse.dev/schedule"] = "00:00-24:00: 2".into();
    });
    for _ in 0..3 {
        scenario.poke();
        scenario.decide(3, None);
        scenario.advance(MINUTE).await;
    }
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
    // Nothing is written at the end but what Rouse itself writes.
    scenario.advance(15 * MINUTE).await;
    scenario.until("the end", |cluster| cluster.size() > 0).await;
    scenario.settle().await;
    assert_eq!(spec(&scenario, "/spec/pausedUntil"), Value::Null);
    assert_eq!(spec(&scenario, "/spec/paused"), false);
}

#[tokio::test(start_paused = true)]
async fn report_of_a_request_beside_the_annotation_wakes_nothing() {
    let mut scenario = Scenario::at_zero().await;
    // The cached ServerlessService is older than the annotation.
    scenario.cluster.api.pause_watches(Some("/apis/autoscaling.rouse.dev/v1alpha1/serverlessservices"));
    pause(&mut scenario, "true").await;
    scenario.poke();
    scenario.advance(MINUTE).await;
    assert_eq!(scenario.cluster.size(), 0);
}

#[tokio::test(start_paused = true)]
async fn paused_workload_with_pods_stays_at_the_size_that_others_write() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.until_serving().await;
    scenario.cluster.edit(AUTOSCALER, |object| object["spec"]["paused"] = "true".into());
    scenario.until("the pause", |cluster| cluster.field(AUTOSCALER, "/status/phase") == "Paused").await;
    let writes = scenario.cluster.scale_writes();
    scenario.decide_panic(4, 10.0);
    scenario.advance(MINUTE).await;
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    scenario.cluster.scale(3);
    scenario.advance(MINUTE).await;
    assert_eq!((scenario.cluster.size(), scenario.cluster.scale_writes()), (3, writes));
    scenario.cluster.edit(AUTOSCALER, |object| object["spec"]["paused"] = Value::Null);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
