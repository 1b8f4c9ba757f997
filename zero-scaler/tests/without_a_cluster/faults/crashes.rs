//! A process may die after any of its writes. Its successor must come to the same end, and nobody may notice on the way.

use crate::harness::cluster::AUTOSCALER;
use crate::harness::scenario::Scenario;

/// Tells the scenario undisturbed, and once for each of its writes with a crash after that.
async fn crash_at_each_write(begin: impl Fn() -> Scenario, tell: impl AsyncFn(&mut Scenario), sizes: &[i64]) {
    let mut undisturbed = begin();
    tell(&mut undisturbed).await;
    assert_eq!(undisturbed.cluster.observed().sizes, sizes);
    assert_eq!(undisturbed.cluster.observed().lost_requests, Vec::<String>::new());
    let expected = undisturbed.cluster.end_state();
    let writes = undisturbed.cluster.api.writes();
    assert!(writes.len() > 10, "{writes:#?}");

    for n in 1..=writes.len() {
        let mut scenario = begin();
        scenario.cluster.api.crash_after(n);
        tell(&mut scenario).await;
        assert_eq!(scenario.crashes, 1, "the crash after write {n}");
        let at = &writes[n - 1];
        assert_eq!(scenario.cluster.observed().sizes, sizes, "after a crash at write {n}, {at}");
        assert_eq!(
            scenario.cluster.observed().lost_requests,
            Vec::<String>::new(),
            "after a crash at write {n}, {at}"
        );
        let end = scenario.cluster.end_state();
        for (ours, theirs) in end.iter().zip(&expected) {
            assert_eq!(ours, theirs, "after a crash at write {n}, {at}");
        }
        assert_eq!(end.len(), expected.len(), "after a crash at write {n}, {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_at_any_write_the_end_is_the_same_and_no_request_is_lost() {
    crash_at_each_write(|| Scenario::new(1), async |scenario| scenario.full_cycle().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_where_kubernetes_writes_the_endpoints_of_the_pods() {
    let attached = || {
        let scenario = Scenario::new(1);
        scenario.cluster.attached();
        scenario
    };
    crash_at_each_write(attached, async |scenario| scenario.full_cycle().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_in_a_panic() {
    let panic = async |scenario: &mut Scenario| {
        scenario.until_serving().await;
        scenario.decide_panic(5, 10.0);
        scenario
            .until("ahead of the HPA", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 5)
            .await;
        scenario.settle().await;
        scenario.decide(1, None);
        scenario.settle().await;
    };
    crash_at_each_write(|| Scenario::new(1), panic, &[1, 5]).await;
}

#[tokio::test(start_paused = true)]
async fn so_it_is_without_an_hpa() {
    let direct = || {
        let scenario = Scenario::new(1);
        scenario.cluster.user_written("Direct");
        scenario
    };
    let tell = async |scenario: &mut Scenario| {
        scenario.until_serving().await;
        scenario.decide_panic(4, 10.0);
        scenario.until("a panic", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 4).await;
        scenario.settle().await;
        scenario.full_cycle().await;
    };
    crash_at_each_write(direct, tell, &[1, 4, 1, 0, 2]).await;
}
