//! PodAutoscalers by a user's hand, and targets that are no Deployment.

use simulator::hpa::Behavior;

use crate::cluster::{AUTOSCALER, Cluster, HPA, SERVERLESS_SERVICE, condition};
use crate::story::Story;

#[tokio::test(start_paused = true)]
async fn without_an_hpa_every_size_is_written_by_us_until_the_end() {
    let mut story = Story::begin(1);
    story.cluster.user_written("Direct");
    story.serving().await;
    story.say(3, None);
    story.until("what is decided", |cluster| cluster.size() == 3).await;
    story.panic(8, 30.0);
    story.until("a panic", |cluster| cluster.size() == 8).await;
    story.say(2, None);
    story.until("the end of it", |cluster| cluster.size() == 2).await;
    story.at_zero().await;
    story.say(2, None);
    story.until("it is awake", |cluster| cluster.size() == 2).await;
    story.serving().await;
    assert_eq!(story.cluster.seen().sizes, [1, 3, 8, 2, 1, 0, 2]);
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());

    story.cluster.delete(AUTOSCALER);
    story.say(4, None);
    story.settle().await;
    assert_eq!(story.cluster.size(), 2);
    let left = story.cluster.api.objects().into_iter().map(|(path, _)| path);
    let ours: Vec<String> =
        left.filter(|path| path.contains("autoscaling.rouse.dev") || path.contains("rouse-ip")).collect();
    assert_eq!(ours, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn beside_an_hpa_of_its_name_sizes_above_zero_are_that_ones() {
    let mut story = Story::with_hpa(1, 50, Some(Behavior::like_the_kpa(std::time::Duration::ZERO)));
    story.cluster.user_written("HPA");
    story.serving().await;
    story.say(4, None);
    story.until("the HPA follows", |cluster| cluster.size() == 4).await;
    assert_eq!(story.cluster.sizes_written(), 0);
    story.panic(12, 60.0);
    story.until("ahead of it", |cluster| cluster.size() == 12).await;
    story.say(1, None);
    story.until("the HPA follows", |cluster| cluster.size() == 1).await;
    story.at_zero().await;
    story.say(2, None);
    story.until("it is awake", |cluster| cluster.size() == 2).await;
    story.serving().await;
    assert_eq!(story.cluster.sizes_written(), 3);
    assert_eq!(story.cluster.events("ForeignPodAutoscaler").len(), 0, "both are by the same hand");
    assert!(condition(&story.cluster, AUTOSCALER, "Ready").starts_with(r#""True""#));

    story.cluster.delete(HPA);
    story
        .until("it misses the HPA", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("HPANotFound"))
        .await;
    assert!(story.cluster.api.get(SERVERLESS_SERVICE).is_some(), "it was made for the user's object");
}

#[tokio::test(start_paused = true)]
async fn anything_that_has_a_size_sleeps_and_wakes() {
    let mut story = Story::begin(1);
    story.cluster.scale_a_gadget();
    let unknown = |cluster: &Cluster| {
        let ready = condition(cluster, AUTOSCALER, "Ready");
        ready.contains("UnknownTargetKind") && ready.contains("correct scaleTargetRef")
    };
    story.until("nobody knows such a kind", unknown).await;
    story.cluster.discover_gadgets();
    story.tell().await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 2]);
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
}
