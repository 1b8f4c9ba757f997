//! Requests that fail, with and without an objective.

use super::*;

#[test]
fn app_that_sheds_load_keeps_a_target_at_which_it_serves_nearly_all() {
    let mut workload = Workload { sheds: true, ..Workload::without_objective(4.0) };
    workload.run(2 * 3600);
    let learned = workload.learned();
    // A pod sheds from 1.3 times its target: above 8 nearly all seconds have refused requests.
    assert!((4.0..8.0).contains(&learned.target), "{learned}");
}

#[test]
fn failed_requests_freeze_target_without_objective() {
    let mut workload = Workload::without_objective(4.0);
    workload.run(600);
    let before = workload.learned();
    workload.failing = 0.1;
    workload.run(1200);
    let learned = workload.learned();
    assert_eq!(learned.phase, Phase::Frozen(FreezeReason::FailedRequests), "{learned}");
    assert!(learned.target <= before.target && learned.changes <= before.changes + 1, "{before}, {learned}");
    workload.failing = 0.0;
    workload.run(300);
    assert!(!matches!(workload.learned().phase, Phase::Frozen(_)), "{}", workload.learned());
}

#[test]
fn failed_requests_restore_target_before_a_raise_however_long_ago() {
    let mut workload = Workload::without_objective(4.0);
    workload.run(30);
    workload.learner.change_to(5.0, ChangeKind::Raise, workload.now());
    workload.learner.phase = Phase::Settled;
    workload.failing = 0.1;
    workload.second += 4;
    workload.run(60);
    assert_eq!(workload.target(), 4.0, "{}", workload.learned());
}

#[test]
fn failed_requests_are_misses_with_an_objective() {
    let mut workload = Workload { failing: 0.1, ..Workload::new(4.0) };
    workload.run(600);
    let learned = workload.learned();
    assert_ne!(learned.phase, Phase::Frozen(FreezeReason::FailedRequests));
    assert!(learned.target <= 4.0 && learned.misses > 0.05, "{learned}");
}
