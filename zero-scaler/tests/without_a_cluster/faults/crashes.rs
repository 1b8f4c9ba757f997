//! A process may crash after any of its writes. Its successor must reach the same final state,
//! without a lost request on the way.

use crate::harness::cluster::{AUTOSCALER, SERVERLESS_SERVICE};
use crate::harness::scenario::Scenario;

/// Runs the scenario without a crash, and once for each of its writes with a crash after it.
async fn crash_at_each_write(new: impl Fn() -> Scenario, run: impl AsyncFn(&mut Scenario), sizes: &[i64]) {
    let mut undisturbed = new();
    run(&mut undisturbed).await;
    assert_eq!(undisturbed.cluster.observed().sizes, sizes);
    assert_eq!(undisturbed.cluster.observed().lost_requests, Vec::<String>::new());
    let expected = undisturbed.cluster.end_state();
    let writes = undisturbed.cluster.api.writes();
    assert!(writes.len() > 10, "{writes:#?}");

    for n in 1..=writes.len() {
        let mut scenario = new();
        scenario.cluster.api.crash_after(n);
        run(&mut scenario).await;
        assert_eq!(scenario.crashes, 1, "the crash after write {n}");
        let at = &writes[n - 1];
        assert_eq!(scenario.cluster.observed().sizes, sizes, "after a crash at write {n}, {at}");
        assert_eq!(
            scenario.cluster.observed().lost_requests,
            Vec::<String>::new(),
            "after a crash at write {n}, {at}"
        );
        let end = scenario.cluster.end_state();
        for (actual, expected_object) in end.iter().zip(&expected) {
            assert_eq!(actual, expected_object, "after a crash at write {n}, {at}");
        }
        assert_eq!(end.len(), expected.len(), "after a crash at write {n}, {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn crash_after_any_write_leads_to_same_state_without_lost_request() {
    crash_at_each_write(|| Scenario::new(1), async |scenario| scenario.full_cycle().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn attached_service_survives_crash_after_any_write() {
    let attached = || {
        let scenario = Scenario::new(1);
        scenario.cluster.attached();
        scenario
    };
    crash_at_each_write(attached, async |scenario| scenario.full_cycle().await, &[1, 0, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn panic_survives_crash_after_any_write() {
    let panic = async |scenario: &mut Scenario| {
        scenario.until_serving().await;
        scenario.decide_panic(5, 10.0);
        scenario
            .until("the size of the panic", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 5)
            .await;
        scenario.settle().await;
        scenario.decide(1, None);
        scenario.settle().await;
    };
    crash_at_each_write(|| Scenario::new(1), panic, &[1, 5]).await;
}

#[tokio::test(start_paused = true)]
async fn direct_scaler_survives_crash_after_any_write() {
    let direct = || {
        let scenario = Scenario::new(1);
        scenario.cluster.user_written("Direct");
        scenario
    };
    let run = async |scenario: &mut Scenario| {
        scenario.until_serving().await;
        scenario.decide_panic(4, 10.0);
        scenario
            .until("the size of the panic", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 4)
            .await;
        scenario.settle().await;
        scenario.full_cycle().await;
    };
    crash_at_each_write(direct, run, &[1, 4, 1, 0, 2]).await;
}

/// The times of conditions are the clock of the scale-to-zero sequence.
#[tokio::test(start_paused = true)]
async fn workload_goes_to_zero_after_a_process_with_its_clock_ahead() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    for object in [AUTOSCALER, SERVERLESS_SERVICE] {
        scenario.cluster.edit(object, |object| {
            for condition in object["status"]["conditions"].as_array_mut().unwrap() {
                condition["lastTransitionTime"] = "2999-01-01T00:00:00Z".into();
            }
        });
    }
    scenario.restart();
    scenario.until_at_zero().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
}
