//! A low rate limit of API requests: status and events are late, and nothing else is.

use std::time::Duration;

use tokio::time::Instant;

use crate::harness::cluster::AUTOSCALER;
use crate::harness::scenario::Scenario;

const ONE_A_SECOND: &[&str] = &["--kube-api-qps=1"];

#[tokio::test(start_paused = true)]
async fn rate_limit_leads_to_same_state_without_lost_request() {
    let mut undisturbed = Scenario::new(1);
    undisturbed.full_cycle().await;
    let expected = undisturbed.cluster.end_state();
    let mut slow = Scenario::with_args(1, ONE_A_SECOND);
    slow.full_cycle().await;
    slow.advance(Duration::from_secs(60)).await;
    slow.settle().await;
    assert_eq!(slow.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(slow.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(slow.cluster.end_state(), expected);
}

#[tokio::test(start_paused = true)]
async fn panic_scales_without_delay_by_status_and_event_writes() {
    let mut scenario = Scenario::with_args(1, ONE_A_SECOND);
    scenario.until_serving().await;
    scenario.advance(Duration::from_secs(30)).await;
    let (began, written) = (Instant::now(), scenario.cluster.api.writes().len());
    for size in 2..=5 {
        scenario.decide_panic(size, 10.0);
        scenario.until("the size of the panic", |cluster| cluster.size() == i64::from(size)).await;
    }
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(scenario.cluster.scale_writes(), 4);
    scenario
        .until("the size in the status", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 5)
        .await;
    let described = scenario.cluster.api.writes().split_off(written);
    let is_rate_limited = |write: &&String| write.contains("/podautoscalers/") || write.contains("/events");
    let rate_limited = described.iter().filter(is_rate_limited);
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(rate_limited.count() <= seconds + 4, "in {seconds} s: {described:#?}");
}
