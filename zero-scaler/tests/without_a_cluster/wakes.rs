//! A wake and the controllers beside it: both hear of the same request, and one writes for it.

use std::time::Duration;

use fake_api::Outage;

use crate::cluster::DEPLOYMENT;
use crate::story::Story;

/// The decider's word comes right behind the activator's.
#[tokio::test(start_paused = true)]
async fn two_words_of_one_request_are_one_write() {
    let mut story = Story::sleeping().await;
    let written = story.cluster.sizes_written();
    story.poke();
    story.say(1, None);
    story.serving().await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1]);
    assert_eq!(story.cluster.sizes_written() - written, 1);
    assert_eq!(story.cluster.events("Woken").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn while_a_wake_is_under_way_nothing_else_is_sent_for_its_workload() {
    let mut story = Story::sleeping().await;
    let asked = story.cluster.api.requests().len();
    story.cluster.api.set_outage(Some(Outage::Hanging));
    story.poke();
    story.say(2, None);
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(story.cluster.api.requests_since(asked), [format!("PUT {DEPLOYMENT}/scale")]);

    // That one is never answered. It is given up, and the look after it writes what is wanted by then.
    story.cluster.api.set_outage(None);
    story.until("it is awake", |cluster| cluster.size() == 2).await;
    assert_eq!(story.lost, 0);
}
