//! Services of two address families, with more pods than one slice holds, and with pods that are not where they should be.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::{ACTIVATOR, ACTIVATOR_IPV6, AUTOSCALER, SERVERLESS_SERVICE, condition};
use crate::story::Story;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_service_of_two_families_sleeps_with_activators_in_both() {
    let mut story = Story::begin(1);
    story.cluster.dual_stack();
    story.cluster.dual_stack_activators();
    story.serving().await;
    assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0"]);
    assert_eq!(story.cluster.behind_the_service_by_ipv6(), ["fd00::0"]);
    story.idle();
    story.until("it sleeps", |cluster| cluster.size() == 0).await;
    assert_eq!(story.cluster.behind_the_service(), [ACTIVATOR]);
    assert_eq!(story.cluster.behind_the_service_by_ipv6(), [ACTIVATOR_IPV6]);
    story.settle().await;
    assert_eq!(story.cluster.field(SERVERLESS_SERVICE, "/status/activators"), 1, "it has two addresses");
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_held_by_ipv6_keeps_its_pod_and_is_told_why() {
    let mut story = Story::begin(1);
    story.cluster.dual_stack();
    story.serving().await;
    story.idle();
    story.pass(5 * MINUTE).await;
    assert_eq!(story.cluster.seen().sizes, [1]);
    assert_eq!(story.cluster.behind_the_service_by_ipv6(), ["fd00::0"]);
    let why = condition(&story.cluster, AUTOSCALER, "ActivatorInPath");
    assert!(why.contains("NotProven") && why.contains("[fd00:96::10]:80"), "{why}");
    // With an activator there, it may sleep.
    story.cluster.dual_stack_activators();
    story.until("it sleeps", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pods_and_more_are_all_behind_the_service_once() {
    let mut story = Story::begin(1);
    story.cluster.max_replicas(2000);
    story.serving().await;
    for (pods, sizes) in
        [(1230, vec![1000, 230]), (1000, vec![1000]), (2345, vec![1000, 1000, 345]), (3, vec![3])]
    {
        story.cluster.scale(pods);
        story.until("all of them", |cluster| cluster.slices() == sizes).await;
        story.settle().await;
        let behind = story.cluster.behind_the_service();
        assert_eq!(behind.iter().collect::<BTreeSet<_>>().len(), usize::try_from(pods).unwrap());
        assert_eq!(story.cluster.slices(), sizes);
    }
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
}

/// A port by name may have another number in each pod. The sidecar's may not: activators know it by contract.
#[tokio::test(start_paused = true)]
async fn pods_with_the_sidecar_elsewhere_are_left_out_and_spoken_of() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.cluster.pods_elsewhere(Some(9012));
    story
        .until("it is said", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("SidecarPortDiffers")
                && condition(cluster, SERVERLESS_SERVICE, "Ready").contains("9012")
        })
        .await;
    assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0"]);
    story.cluster.pods_elsewhere(None);
    story.until("it is over", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("Serving")).await;
}
