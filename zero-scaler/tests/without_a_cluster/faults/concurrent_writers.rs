//! Other writers of the same objects, and pods without the sidecar.

use std::time::Duration;

use fake_api::Outage;

use crate::harness::cluster::{AUTOSCALER, Cluster, DEPLOYMENT, condition};
use crate::harness::scenario::Scenario;

/// As in the moment in which one leader loses its lease and the next one already leads.
#[tokio::test(start_paused = true)]
async fn two_concurrent_leaders_reach_the_state_of_one() {
    let mut one = Scenario::new(1);
    one.full_cycle().await;
    let of_one = one.cluster.end_state();
    let mut two = Scenario::new(2);
    two.full_cycle().await;
    assert_eq!(two.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(two.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(two.cluster.end_state(), of_one);
}

#[tokio::test(start_paused = true)]
async fn does_not_scale_to_zero_over_a_concurrent_scale_up() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    // From here on the zero-scaler's store of Deployments is stale.
    scenario.cluster.api.pause_watches(Some("/apis/apps/v1/deployments"));
    scenario.cluster.scale(3);
    scenario.decide(0, Some(0));
    scenario.advance(Duration::from_secs(120)).await;
    assert!(scenario.cluster.scale_writes() > 0, "the zero-scaler never tried to write");
    scenario.cluster.api.pause_watches(None);
    scenario.advance(Duration::from_secs(30)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 3]);
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/replicas"), 3);
}

/// The HPA follows another metric to a larger size, or a user sets 0, while the store of
/// Deployments is stale.
#[tokio::test(start_paused = true)]
async fn panic_does_not_overwrite_larger_or_manual_zero_size() {
    for size in [8, 0] {
        let mut scenario = Scenario::new(1);
        scenario.until_serving().await;
        scenario.cluster.api.pause_watches(Some("/apis/apps/v1/deployments"));
        scenario.cluster.scale(size);
        scenario.decide_panic(5, 10.0);
        scenario.advance(Duration::from_secs(20)).await;
        assert!(scenario.cluster.scale_writes() > 0, "the zero-scaler never tried to write");
        assert_eq!(scenario.cluster.observed().sizes, [1, size]);
    }
}

/// The status of a Deployment changes with each pod that starts, and with it the resource version.
#[tokio::test(start_paused = true)]
async fn panic_write_succeeds_over_changes_other_than_the_size() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.pause_watches(Some("/apis/apps/v1/deployments"));
    scenario.cluster.edit(DEPLOYMENT, |object| object["status"]["replicas"] = 1.into());
    scenario.decide_panic(5, 10.0);
    scenario.until("the size of the panic", |cluster| cluster.size() == 5).await;
    assert_eq!(
        (scenario.cluster.observed().sizes.as_slice(), scenario.cluster.scale_writes()),
        ([1, 5].as_slice(), 2)
    );
}

/// A failed write counts as no conflict; repeated writes of another client are reported once.
#[tokio::test(start_paused = true)]
async fn reports_another_scaler_once_after_repeated_conflicts() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.set_outage(Some(Outage::Failing));
    scenario.decide_panic(5, 10.0);
    scenario.advance(Duration::from_secs(20)).await;
    scenario.cluster.api.set_outage(None);
    for _ in 0..3 {
        scenario.until("the size of the panic", |cluster| cluster.size() == 5).await;
        scenario.settle().await;
        assert_eq!(scenario.cluster.events("ScaleConflict").len(), 0);
        scenario.cluster.scale(2);
    }
    scenario.until("the size of the panic again", |cluster| cluster.size() == 5).await;
    scenario.settle().await;
    let [event] = scenario.cluster.events("ScaleConflict").try_into().unwrap();
    assert_eq!((&event["type"], &event["regarding"]["kind"]), (&"Warning".into(), &"PodAutoscaler".into()));
    assert!(event["note"].as_str().unwrap().contains("kubectl get Deployment web"), "{event}");
    scenario.cluster.scale(2);
    scenario.until("the size of the panic again", |cluster| cluster.size() == 5).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.events("ScaleConflict").len(), 1);
}

/// Without the admission policy, or for pods older than it, the label is set but the sidecar is
/// missing.
#[tokio::test(start_paused = true)]
async fn reports_pods_without_sidecar() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.set_sidecars(false);
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("SidecarMissing")).await;
    assert!(
        ready(&scenario.cluster).contains("web-bare")
            && ready(&scenario.cluster).contains("restart the pods")
    );
    let warnings = |cluster: &Cluster| {
        cluster.events("NotReady").iter().any(|event| event["note"].to_string().contains("web-bare"))
    };
    scenario.until("the event", warnings).await;
    scenario.cluster.set_sidecars(true);
    scenario.until("the condition to clear", |cluster| ready(cluster).starts_with(r#""True""#)).await;
}
