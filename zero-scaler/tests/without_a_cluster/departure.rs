//! Those who hold requests are taken away: all activators, or all of Rouse by its namespace's deletion.

use std::time::Duration;

use serde_json::json;

use crate::cluster::{ACTIVATOR, AUTOSCALER};
use crate::story::Story;

#[tokio::test(start_paused = true)]
async fn who_sleeps_when_our_namespace_is_deleted_is_woken_and_reached_without_us() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.say(0, Some(0));
    story.until("it sleeps", |cluster| cluster.size() == 0).await;
    story.until("its status says so", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 0).await;
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    story.cluster.api.put("/api/v1/namespaces/rouse-system", deleted);
    story.until("it is awake", |cluster| cluster.size() == 1).await;
    story
        .until("its pods are behind the Service", |cluster| cluster.behind_the_service() == ["10.0.0.0"])
        .await;
    story.pass(Duration::from_secs(120)).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn who_sleeps_when_all_activators_are_lost_is_woken_after_ten_seconds_and_may_sleep_again_with_the_next()
 {
    let mut story = Story::begin(1);
    story.serving().await;
    story.at_zero().await;
    story.cluster.activators(&[]);
    story.pass(Duration::from_secs(9)).await;
    assert_eq!(story.cluster.size(), 0, "an activator that is replaced is no reason");
    story.pass(Duration::from_secs(2)).await;
    assert_eq!(story.cluster.size(), 1);
    story
        .until("its pods are behind the Service", |cluster| cluster.behind_the_service() == ["10.0.0.0"])
        .await;
    story.pass(Duration::from_secs(300)).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1], "nobody could hold a request");
    story.cluster.activators(&[ACTIVATOR]);
    story.until("it sleeps again", |cluster| cluster.size() == 0).await;
    assert_eq!(story.cluster.behind_the_service(), [ACTIVATOR]);
}
