//! Others that write the same objects at the same time.

use std::time::Duration;

use fake_api::Outage;

use crate::cluster::{AUTOSCALER, Cluster, condition};
use crate::story::Story;

/// The moment in which a leader is cut off and the next one leads already.
#[tokio::test(start_paused = true)]
async fn two_that_both_believe_to_lead_do_what_one_does() {
    let mut one = Story::begin(1);
    one.tell().await;
    let mut two = Story::begin(2);
    two.tell().await;
    assert_eq!(two.cluster.seen().sizes, [1, 0, 2]);
    assert_eq!(two.cluster.seen().lost, Vec::<String>::new());
    assert_eq!(two.cluster.end_state(), one.cluster.end_state());
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_somebody_scales_at_the_last_moment_is_not_put_to_zero() {
    let mut story = Story::begin(1);
    story.serving().await;
    // What the zero-scaler knows of Deployments is old from here on.
    story.cluster.api.pause_watches(Some("/apis/apps/v1/deployments"));
    story.cluster.scale(3);
    story.say(0, Some(0));
    story.pass(Duration::from_secs(120)).await;
    assert!(story.cluster.sizes_written() > 0, "it never came so far");
    story.cluster.api.pause_watches(None);
    story.pass(Duration::from_secs(30)).await;
    assert_eq!(story.cluster.seen().sizes, [1, 3]);
    assert_eq!(story.cluster.field(AUTOSCALER, "/status/replicas"), 3);
}

/// A write that failed was not taken back by anybody; one that somebody takes back again and again is told, once.
#[tokio::test(start_paused = true)]
async fn only_a_rival_is_taken_for_one() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.cluster.api.set_outage(Some(Outage::Failing));
    story.panic(5, 10.0);
    story.pass(Duration::from_secs(20)).await;
    story.cluster.api.set_outage(None);
    for _ in 0..3 {
        story.until("ahead of the HPA", |cluster| cluster.size() == 5).await;
        story.settle().await;
        assert_eq!(story.cluster.events("AnotherScaler").len(), 0);
        story.cluster.scale(2);
    }
    story.until("ahead once more", |cluster| cluster.size() == 5).await;
    story.settle().await;
    let [event] = story.cluster.events("AnotherScaler").try_into().unwrap();
    assert_eq!((&event["type"], &event["regarding"]["kind"]), (&"Warning".into(), &"PodAutoscaler".into()));
    assert!(event["note"].as_str().unwrap().contains("kubectl get Deployment web"), "{event}");
    story.cluster.scale(2);
    story.until("and once more", |cluster| cluster.size() == 5).await;
    story.settle().await;
    assert_eq!(story.cluster.events("AnotherScaler").len(), 1);
}

/// No admission policy, or pods that are older than it: the label is there, and nobody looks at the pods for it.
#[tokio::test(start_paused = true)]
async fn pods_that_got_no_sidecar_are_told_of() {
    let mut story = Story::begin(1);
    story.cluster.inject(false);
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    story.until("it is said", |cluster| ready(cluster).contains("SidecarMissing")).await;
    assert!(ready(&story.cluster).contains("web-bare") && ready(&story.cluster).contains("restart the pods"));
    let told = |cluster: &Cluster| {
        cluster.events("NotReady").iter().any(|event| event["note"].to_string().contains("web-bare"))
    };
    story.until("and an event says it", told).await;
    story.cluster.inject(true);
    story.until("it is taken back", |cluster| ready(cluster).starts_with(r#""True""#)).await;
}
