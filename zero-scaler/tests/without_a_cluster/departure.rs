//! Rouse is taken away by its namespace's deletion.

use serde_json::json;

use crate::cluster::AUTOSCALER;
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
    story.pass(std::time::Duration::from_secs(120)).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1]);
}
