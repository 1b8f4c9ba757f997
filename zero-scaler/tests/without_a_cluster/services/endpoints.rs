//! Dual-stack Services, more pods than fit one EndpointSlice, and pods with another port.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::harness::cluster::{
    ACTIVATOR, ACTIVATOR_IPV6, AUTOSCALER, Cluster, PRIVATE_SERVICE, SERVERLESS_SERVICE, SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn dual_stack_service_at_zero_has_activators_of_both_families() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.dual_stack();
    scenario.cluster.dual_stack_activators();
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), ["fd00::0"]);
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), [ACTIVATOR_IPV6]);
    scenario.settle().await;
    assert_eq!(scenario.cluster.field(SERVERLESS_SERVICE, "/status/activators"), 1, "it has two addresses");
}

/// As by `kubectl replace --force`. The API server refuses to change the primary family of the
/// private Service.
#[tokio::test(start_paused = true)]
async fn private_service_follows_a_service_that_was_made_again_with_the_other_family() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.dual_stack();
    scenario.until_serving().await;
    let uid = |cluster: &Cluster| cluster.field(PRIVATE_SERVICE, "/metadata/uid");
    let before = uid(&scenario.cluster);
    scenario.cluster.edit(SERVICE, |service| service["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]));
    scenario
        .until("the new one", |cluster| {
            cluster.field(PRIVATE_SERVICE, "/spec/ipFamilies/0") == "IPv6" && uid(cluster) != before
        })
        .await;
    let after = uid(&scenario.cluster);
    scenario.until_serving().await;
    assert_eq!(uid(&scenario.cluster), after, "once");
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), ["fd00::0"]);
}

#[tokio::test(start_paused = true)]
async fn keeps_pod_when_no_activator_has_ipv6() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.dual_stack();
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    assert_eq!(scenario.cluster.service_endpoints_ipv6(), ["fd00::0"]);
    let reason = condition(&scenario.cluster, AUTOSCALER, "ActivatorInPath");
    assert!(reason.contains("NotVerified") && reason.contains("[fd00:96::10]:80"), "{reason}");
    // With an IPv6 activator it may go to zero.
    scenario.cluster.dual_stack_activators();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn lists_each_of_thousands_of_pods_in_exactly_one_slice() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.max_replicas(2000);
    scenario.until_serving().await;
    for (pods, sizes) in
        [(1230, vec![1000, 230]), (1000, vec![1000]), (2345, vec![1000, 1000, 345]), (3, vec![3])]
    {
        scenario.cluster.scale(pods);
        scenario.until("all pods in slices", |cluster| cluster.slices() == sizes).await;
        scenario.settle().await;
        let behind = scenario.cluster.service_endpoints();
        assert_eq!(behind.iter().collect::<BTreeSet<_>>().len(), usize::try_from(pods).unwrap());
        assert_eq!(scenario.cluster.slices(), sizes);
    }
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// A named port may have another number in each pod.
#[tokio::test(start_paused = true)]
async fn serves_pods_on_the_sidecar_port_that_they_declare() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.pods_with_other_port(Some(9012));
    scenario
        .until("both", |cluster| {
            cluster.endpoint_ports() == [8012, 9012]
                && cluster.service_endpoints() == ["10.0.0.0", "10.0.7.7"]
        })
        .await;
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("Serving"));
    scenario.cluster.pods_with_other_port(None);
    scenario.until("the first", |cluster| cluster.endpoint_ports() == [8012]).await;
}
