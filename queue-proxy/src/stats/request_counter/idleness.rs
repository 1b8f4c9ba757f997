//! Checks which requests end idleness of the pod.

use tokio::time::advance;

use super::*;

#[tokio::test(start_paused = true)]
async fn request_after_a_quiet_second_ends_idleness_unless_an_activator_sent_it() {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let counter = Arc::new(RequestCounter::new(now(), Duration::ZERO, metrics));
    let arrive = async |quiet_ms, proxied| {
        advance(Duration::from_millis(quiet_ms)).await;
        counter.enter(proxied)
    };
    assert!(!arrive(900, false).await.ended_idleness());
    assert!(!arrive(1000, true).await.ended_idleness());
    let long = arrive(1000, false).await;
    assert!(long.ended_idleness());
    assert!(!arrive(1000, false).await.ended_idleness(), "one is in flight");
    drop(long);
    assert!(arrive(1000, false).await.ended_idleness());
}
