//! A process may die after any of its writes. Its successor must come to the same end, and nobody may notice on the way.

use crate::cluster::AUTOSCALER;
use crate::story::Story;

/// Tells the story undisturbed, and once for each of its writes with a crash after that.
async fn crash_at_each_write(begin: impl Fn() -> Story, tell: impl AsyncFn(&mut Story), sizes: &[i64]) {
    let mut undisturbed = begin();
    tell(&mut undisturbed).await;
    assert_eq!(undisturbed.cluster.seen().sizes, sizes);
    assert_eq!(undisturbed.cluster.seen().lost, Vec::<String>::new());
    let expected = undisturbed.cluster.end_state();
    let writes = undisturbed.cluster.api.writes();
    assert!(writes.len() > 10, "{writes:#?}");

    for n in 1..=writes.len() {
        let mut story = begin();
        story.cluster.api.crash_after(n);
        tell(&mut story).await;
        assert_eq!(story.lost, 1, "the crash after write {n}");
        let at = &writes[n - 1];
        assert_eq!(story.cluster.seen().sizes, sizes, "after a crash at write {n}, {at}");
        assert_eq!(story.cluster.seen().lost, Vec::<String>::new(), "after a crash at write {n}, {at}");
        let end = story.cluster.end_state();
        for (ours, theirs) in end.iter().zip(&expected) {
            assert_eq!(ours, theirs, "after a crash at write {n}, {at}");
        }
        assert_eq!(end.len(), expected.len(), "after a crash at write {n}, {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_write_the_end_is_the_same_and_no_request_is_lost() {
    crash_at_each_write(|| Story::begin(1), async |story| story.tell().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_where_kubernetes_writes_the_endpoints_of_the_pods() {
    let attached = || {
        let story = Story::begin(1);
        story.cluster.attached();
        story
    };
    crash_at_each_write(attached, async |story| story.tell().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_in_a_panic() {
    let panic = async |story: &mut Story| {
        story.serving().await;
        story.panic(5, 10.0);
        story.until("ahead of the HPA", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 5).await;
        story.settle().await;
        story.say(1, None);
        story.settle().await;
    };
    crash_at_each_write(|| Story::begin(1), panic, &[1, 5]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_without_an_hpa() {
    let direct = || {
        let story = Story::begin(1);
        story.cluster.user_written("Direct");
        story
    };
    let tell = async |story: &mut Story| {
        story.serving().await;
        story.panic(4, 10.0);
        story.until("a panic", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 4).await;
        story.settle().await;
        story.tell().await;
    };
    crash_at_each_write(direct, tell, &[1, 4, 1, 0, 2]).await;
}
