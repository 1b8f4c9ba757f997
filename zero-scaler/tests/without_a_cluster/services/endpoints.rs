//! Services of two address families, with more pods than one slice holds, and with pods that are not where they should be.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::cluster::{ACTIVATOR, ACTIVATOR_IPV6, AUTOSCALER, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_service_of_two_families_sleeps_with_activators_in_both() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.dual_stack();
    scenario.cluster.dual_stack_activators();
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), ["fd00::0"]);
    scenario.decide_idle();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), [ACTIVATOR_IPV6]);
    scenario.settle().await;
    assert_eq!(scenario.cluster.field(SERVERLESS_SERVICE, "/status/activators"), 1, "it has two addresses");
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_held_by_ipv6_keeps_its_pod_and_is_told_why() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.dual_stack();
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), ["fd00::0"]);
    let why = condition(&scenario.cluster, AUTOSCALER, "ActivatorInPath");
    assert!(why.contains("NotProven") && why.contains("[fd00:96::10]:80"), "{why}");
    // With an activator there, it may sleep.
    scenario.cluster.dual_stack_activators();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_pods_and_more_are_all_behind_the_service_once() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.max_replicas(2000);
    scenario.until_serving().await;
    for (pods, sizes) in
        [(1230, vec![1000, 230]), (1000, vec![1000]), (2345, vec![1000, 1000, 345]), (3, vec![3])]
    {
        scenario.cluster.scale(pods);
        scenario.until("all of them", |cluster| cluster.slices() == sizes).await;
        scenario.settle().await;
        let behind = scenario.cluster.service_endpoints();
        assert_eq!(behind.iter().collect::<BTreeSet<_>>().len(), usize::try_from(pods).unwrap());
        assert_eq!(scenario.cluster.slices(), sizes);
    }
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// A port by name may have another number in each pod. The sidecar's may not: activators know it by contract.
#[tokio::test(start_paused = true)]
async fn pods_with_the_sidecar_elsewhere_are_left_out_and_spoken_of() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.pods_with_other_port(Some(9012));
    scenario
        .until("it is said", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("SidecarPortDiffers")
                && condition(cluster, SERVERLESS_SERVICE, "Ready").contains("9012")
        })
        .await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    scenario.cluster.pods_with_other_port(None);
    scenario.until("it is over", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("Serving")).await;
}
