//! PodAutoscalers by a user's hand, and targets that are no Deployment.

use simulator::hpa::Behavior;

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

#[tokio::test(start_paused = true)]
async fn without_an_hpa_every_size_is_written_by_us_until_the_end() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.until_serving().await;
    scenario.decide(3, None);
    scenario.until("what is decided", |cluster| cluster.size() == 3).await;
    scenario.decide_panic(8, 30.0);
    scenario.until("a panic", |cluster| cluster.size() == 8).await;
    scenario.decide(2, None);
    scenario.until("the end of it", |cluster| cluster.size() == 2).await;
    scenario.until_at_zero().await;
    scenario.decide(2, None);
    scenario.until("it is awake", |cluster| cluster.size() == 2).await;
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 3, 8, 2, 1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());

    scenario.cluster.delete(AUTOSCALER);
    scenario.decide(4, None);
    scenario.settle().await;
    assert_eq!(scenario.cluster.size(), 2);
    let left = scenario.cluster.api.objects().into_iter().map(|(path, _)| path);
    let ours: Vec<String> =
        left.filter(|path| path.contains("autoscaling.rouse.dev") || path.contains("rouse-ip")).collect();
    assert_eq!(ours, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn beside_an_hpa_of_its_name_sizes_above_zero_are_that_ones() {
    let mut scenario = Scenario::with_hpa(1, 50, Some(Behavior::like_the_kpa(std::time::Duration::ZERO)));
    scenario.cluster.user_written("HPA");
    scenario.until_serving().await;
    scenario.decide(4, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 4).await;
    assert_eq!(scenario.cluster.scale_writes(), 0);
    scenario.decide_panic(12, 60.0);
    scenario.until("ahead of it", |cluster| cluster.size() == 12).await;
    scenario.decide(1, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 1).await;
    scenario.until_at_zero().await;
    scenario.decide(2, None);
    scenario.until("it is awake", |cluster| cluster.size() == 2).await;
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.scale_writes(), 3);
    assert_eq!(scenario.cluster.events("ForeignPodAutoscaler").len(), 0, "both are by the same hand");
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").starts_with(r#""True""#));

    scenario.cluster.delete(HPA);
    scenario
        .until("it misses the HPA", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("HPANotFound"))
        .await;
    assert!(scenario.cluster.api.get(SERVERLESS_SERVICE).is_some(), "it was made for the user's object");
}

#[tokio::test(start_paused = true)]
async fn anything_that_has_a_size_sleeps_and_wakes() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.scale_a_gadget();
    let unknown = |cluster: &Cluster| {
        let ready = condition(cluster, AUTOSCALER, "Ready");
        ready.contains("UnknownTargetKind") && ready.contains("correct scaleTargetRef")
    };
    scenario.until("nobody knows such a kind", unknown).await;
    scenario.cluster.discover_gadgets();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
