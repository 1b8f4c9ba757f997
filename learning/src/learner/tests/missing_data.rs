//! Gaps, steps of the clock, and sidecars that do not report the ends of requests.

use super::*;

#[test]
fn gap_freezes_target_until_data_are_complete_again() {
    let mut workload = Workload::new(2.5);
    workload.run(150);
    workload.second += 30;
    assert_eq!(workload.learned().phase, Phase::Frozen(FreezeReason::Gap));
    workload.run(55);
    assert_eq!(workload.learned().phase, Phase::Frozen(FreezeReason::Gap));
    assert_eq!(workload.target(), 2.5);
    workload.run(60);
    assert_ne!(workload.learned().phase, Phase::Frozen(FreezeReason::Gap));
}

#[test]
fn target_stays_while_gaps_or_clock_jumps_repeat() {
    for step in [10, 400, -30] {
        let mut workload = Workload::new(2.5);
        for _ in 0..100 {
            workload.run(40);
            workload.second = workload.second.saturating_add_signed(step);
        }
        let learned = workload.learned();
        assert!(
            matches!(learned.phase, Phase::Frozen(FreezeReason::Gap | FreezeReason::ClockJump)),
            "{learned}"
        );
        assert_eq!((learned.target, learned.changes), (2.5, 0), "{step}");
    }
}

#[test]
fn clock_jump_freezes_target() {
    for jump in [-3600, 3600] {
        let mut workload = Workload::new(2.5);
        workload.run(150);
        workload.second = workload.second.saturating_add_signed(jump);
        workload.run(30);
        assert_eq!(workload.learned().phase, Phase::Frozen(FreezeReason::ClockJump), "{jump}");
        assert_eq!(workload.target(), 2.5);
    }
}

#[test]
fn young_pods_without_ends_of_requests_do_not_freeze_target() {
    let mut workload = Workload::new(8.0);
    workload.run(30);
    for _ in 0..5 {
        workload.second += 1;
        let mut pods: Vec<_> = (0..10).map(|index| workload.pod(index)).collect();
        for pod in pods.iter_mut().take(9) {
            (pod.age, pod.app) = (Duration::from_secs(2), None);
        }
        workload.learner.observe(workload.now(), &pods);
    }
    assert!(!matches!(workload.learned().phase, Phase::Frozen(_)), "{}", workload.learned());
}

#[test]
fn old_sidecars_freeze_target_with_objective() {
    let mut workload = Workload::new(2.5);
    for _ in 0..1200 {
        workload.second += 1;
        let pods: Vec<_> = (0..10).map(|index| PodSecond { app: None, ..workload.pod(index) }).collect();
        workload.learner.observe(workload.now(), &pods);
    }
    assert_eq!(workload.learned().phase, Phase::Frozen(FreezeReason::OldSidecars));
    assert_eq!(workload.target(), 2.5);
}

#[test]
fn old_sidecars_without_objective_do_not_freeze_target() {
    let mut workload = Workload::without_objective(8.0);
    for _ in 0..200 {
        workload.second += 1;
        let pods: Vec<_> = (0..10).map(|index| PodSecond { app: None, ..workload.pod(index) }).collect();
        workload.learner.observe(workload.now(), &pods);
    }
    let learned = workload.learned();
    assert!(!matches!(learned.phase, Phase::Frozen(_)) && learned.requests > 0.0, "{learned}");
}
