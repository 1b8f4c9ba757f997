//! Others that write the same objects at the same time.

use std::time::Duration;

use fake_api::Outage;

use crate::harness::cluster::{AUTOSCALER, Cluster, condition};
use crate::harness::scenario::Scenario;

/// The moment in which a leader is cut off and the next one leads already.
#[tokio::test(start_paused = true)]
async fn two_that_both_believe_to_lead_do_what_one_does() {
    let mut one = Scenario::new(1);
    one.full_cycle().await;
    let mut two = Scenario::new(2);
    two.full_cycle().await;
    assert_eq!(two.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(two.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(two.cluster.end_state(), one.cluster.end_state());
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_somebody_scales_at_the_last_moment_is_not_put_to_zero() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    // What the zero-scaler knows of Deployments is old from here on.
    scenario.cluster.api.pause_watches(Some("/apis/apps/v1/deployments"));
    scenario.cluster.scale(3);
    scenario.decide(0, Some(0));
    scenario.advance(Duration::from_secs(120)).await;
    assert!(scenario.cluster.scale_writes() > 0, "it never came so far");
    scenario.cluster.api.pause_watches(None);
    scenario.advance(Duration::from_secs(30)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 3]);
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/replicas"), 3);
}

/// A write that failed was not taken back by anybody; one that somebody takes back again and again is told, once.
#[tokio::test(start_paused = true)]
async fn only_a_rival_is_taken_for_one() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.set_outage(Some(Outage::Failing));
    scenario.decide_panic(5, 10.0);
    scenario.advance(Duration::from_secs(20)).await;
    scenario.cluster.api.set_outage(None);
    for _ in 0..3 {
        scenario.until("ahead of the HPA", |cluster| cluster.size() == 5).await;
        scenario.settle().await;
        assert_eq!(scenario.cluster.events("AnotherScaler").len(), 0);
        scenario.cluster.scale(2);
    }
    scenario.until("ahead once more", |cluster| cluster.size() == 5).await;
    scenario.settle().await;
    let [event] = scenario.cluster.events("AnotherScaler").try_into().unwrap();
    assert_eq!((&event["type"], &event["regarding"]["kind"]), (&"Warning".into(), &"PodAutoscaler".into()));
    assert!(event["note"].as_str().unwrap().contains("kubectl get Deployment web"), "{event}");
    scenario.cluster.scale(2);
    scenario.until("and once more", |cluster| cluster.size() == 5).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.events("AnotherScaler").len(), 1);
}

/// No admission policy, or pods that are older than it: the label is there, and nobody looks at the pods for it.
#[tokio::test(start_paused = true)]
async fn pods_that_got_no_sidecar_are_told_of() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.set_sidecars(false);
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("it is said", |cluster| ready(cluster).contains("SidecarMissing")).await;
    assert!(
        ready(&scenario.cluster).contains("web-bare")
            && ready(&scenario.cluster).contains("restart the pods")
    );
    let told = |cluster: &Cluster| {
        cluster.events("NotReady").iter().any(|event| event["note"].to_string().contains("web-bare"))
    };
    scenario.until("and an event says it", told).await;
    scenario.cluster.set_sidecars(true);
    scenario.until("it is taken back", |cluster| ready(cluster).starts_with(r#""True""#)).await;
}
