//! Others that write the same objects at the same time.

use std::time::Duration;

use crate::cluster::AUTOSCALER;
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
    story.cluster.api.silence(Some("/apis/apps/v1/deployments"));
    story.cluster.scale(3);
    story.say(0, Some(0));
    story.pass(Duration::from_secs(120)).await;
    assert!(story.cluster.sizes_written() > 0, "it never came so far");
    story.cluster.api.silence(None);
    story.pass(Duration::from_secs(30)).await;
    assert_eq!(story.cluster.seen().sizes, [1, 3]);
    assert_eq!(story.cluster.field(AUTOSCALER, "/status/replicas"), 3);
}
