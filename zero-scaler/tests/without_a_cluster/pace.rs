//! An API server that may be asked for little: what describes comes late, and nothing else does.

use std::time::Duration;

use tokio::time::Instant;

use crate::cluster::AUTOSCALER;
use crate::story::Story;

const ONE_A_SECOND: &[&str] = &["--kube-api-qps=1", "--kube-api-burst=1"];

#[tokio::test(start_paused = true)]
async fn the_end_is_the_same_and_no_request_is_lost() {
    let mut undisturbed = Story::begin(1);
    undisturbed.tell().await;
    let mut slow = Story::begin_with(1, ONE_A_SECOND);
    slow.tell().await;
    slow.pass(Duration::from_secs(60)).await;
    slow.settle().await;
    assert_eq!(slow.cluster.seen().sizes, [1, 0, 2]);
    assert_eq!(slow.cluster.seen().lost, Vec::<String>::new());
    assert_eq!(slow.cluster.end_state(), undisturbed.cluster.end_state());
}

#[tokio::test(start_paused = true)]
async fn a_panic_does_not_wait_for_words_about_it() {
    let mut story = Story::begin_with(1, ONE_A_SECOND);
    story.serving().await;
    story.pass(Duration::from_secs(30)).await;
    let (began, written) = (Instant::now(), story.cluster.api.writes().len());
    for size in 2..=5 {
        story.panic(size, 10.0);
        story.until("its size", |cluster| cluster.size() == i64::from(size)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(story.cluster.sizes_written(), 4);
    story.until("it is described", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 5).await;
    let described = story.cluster.api.writes().split_off(written);
    let is_paced = |write: &&String| write.contains("/podautoscalers/") || write.contains("/events");
    let paced = described.iter().filter(is_paced);
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(paced.count() <= seconds + 4, "in {seconds} s: {described:#?}");
}
