//! Watches that are lost, and what happened meanwhile.

use std::time::Duration;

use fake_api::Outage;
use serde_json::json;

use crate::cluster::{AUTOSCALER, HPA, SERVERLESS_SERVICE};
use crate::story::Story;

#[tokio::test(start_paused = true)]
async fn what_happened_while_the_api_server_was_away_is_followed_and_nothing_is_taken_for_gone() {
    for forgetting in [false, true] {
        let mut story = Story::begin(1);
        story.serving().await;
        let before = story.cluster.field(SERVERLESS_SERVICE, "/status/ports");
        story.cluster.api.set_outage(Some(Outage::Failing));
        story.cluster.api.break_watches(forgetting);
        story.cluster.max_replicas(7);
        story.pass(Duration::from_secs(20)).await;
        story.cluster.api.set_outage(None);
        story.until("the new bound", |cluster| cluster.field(AUTOSCALER, "/spec/maxReplicas") == 7).await;
        story.settle().await;
        assert_eq!(story.cluster.field(SERVERLESS_SERVICE, "/status/ports"), before);
        assert_eq!(story.cluster.seen().sizes, [1]);
        assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn an_hpa_that_stopped_to_ask_for_us_meanwhile_is_released() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.cluster.api.set_outage(Some(Outage::Failing));
    story.cluster.api.break_watches(true);
    let mut hpa = story.cluster.api.get(HPA).unwrap();
    hpa["spec"]["metrics"] =
        json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]);
    story.cluster.api.put(HPA, hpa);
    story.pass(Duration::from_secs(5)).await;
    story.cluster.api.set_outage(None);
    story.until("the PodAutoscaler is gone", |cluster| cluster.api.get(AUTOSCALER).is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_when_nothing_changed_not_even_after_a_fresh_list() {
    let mut story = Story::begin(1);
    story.serving().await;
    let written = story.cluster.api.writes().len();
    story.cluster.api.break_watches(true);
    story.pass(Duration::from_secs(600)).await;
    let all = story.cluster.api.writes();
    assert_eq!(&all[written..], Vec::<String>::new());
}
