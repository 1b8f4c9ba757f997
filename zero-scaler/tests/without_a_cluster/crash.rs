//! A process may die after any of its writes. Its successor must come to the same end, and nobody may notice on the way.

use crate::story::Story;

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_write_the_end_is_the_same_and_no_request_is_lost() {
    let mut undisturbed = Story::begin(1);
    undisturbed.tell().await;
    assert_eq!(undisturbed.cluster.seen().sizes, [1, 0, 2]);
    assert_eq!(undisturbed.cluster.seen().lost, Vec::<String>::new());
    let expected = undisturbed.cluster.end_state();
    let writes = undisturbed.cluster.api.writes();
    assert!(writes.len() > 15, "{writes:#?}");

    for n in 1..=writes.len() {
        let mut story = Story::begin(1);
        story.cluster.api.crash_after(n);
        story.tell().await;
        assert_eq!(story.lost, 1, "the crash after write {n}");
        let at = &writes[n - 1];
        assert_eq!(story.cluster.seen().sizes, [1, 0, 2], "after a crash at write {n}, {at}");
        assert_eq!(story.cluster.seen().lost, Vec::<String>::new(), "after a crash at write {n}, {at}");
        let end = story.cluster.end_state();
        for (ours, theirs) in end.iter().zip(&expected) {
            assert_eq!(ours, theirs, "after a crash at write {n}, {at}");
        }
        assert_eq!(end.len(), expected.len(), "after a crash at write {n}, {at}");
    }
}
