//! Releases after a target that was bad.

use super::*;

/// A workload with a target of 8, for which 10 was bad, right after a release.
fn released() -> Workload {
    let mut workload = Workload::new(8.0);
    workload.run(60);
    workload.learner.bracket.record_bad(Tried { severity: 3.0, at: workload.now(), ..good(10.0) });
    workload.run(30);
    assert_eq!(workload.target(), 8.0);
    workload.learner.begin_epoch(1);
    workload
}

#[test]
fn release_without_a_change_is_followed_by_no_raise_to_a_bad_target() {
    let mut workload = released();
    workload.run(3500);
    assert_eq!(
        (workload.target(), workload.learned().phase),
        (8.0, Phase::Settled),
        "{}",
        workload.learned()
    );
}

#[test]
fn release_of_a_settled_target_is_followed_by_no_large_raise() {
    for is_settled in [true, false] {
        let mut workload = Workload::new(8.0);
        workload.run(90);
        workload.learner.phase = if is_settled { Phase::Settled } else { Phase::Exploring };
        workload.learner.begin_epoch(1);
        workload.run(3500);
        assert_eq!(workload.target() > 8.0, !is_settled, "{}", workload.learned());
    }
}

#[test]
fn suspicion_goes_on_after_a_restart_and_another_release() {
    let mut workload = released();
    workload.run(100);
    workload.restart(&workload.stored());
    workload.learner.begin_epoch(2);
    workload.run(900);
    assert_eq!(workload.target(), 8.0, "{}", workload.learned());
}

#[test]
fn restart_before_a_release_keeps_the_bad_target_as_a_suspicion() {
    let mut workload = Workload::new(8.0);
    workload.run(60);
    workload.learner.bracket.record_bad(Tried { severity: 3.0, at: workload.now(), ..good(10.0) });
    workload.restart(&workload.stored());
    workload.learner.begin_epoch(1);
    workload.run(900);
    assert_eq!(workload.target(), 8.0, "{}", workload.learned());
    workload.run(3600);
    assert_eq!(workload.learner.suspicion, None);
}

#[test]
fn faster_release_is_raised_to_a_target_that_was_bad() {
    let mut workload = released();
    workload.slowness = 0.5;
    workload.run(600);
    assert!(workload.target() >= 10.0, "{}", workload.learned());
    assert_eq!(workload.learner.suspicion, None);
}

#[test]
fn slower_release_keeps_the_suspicion() {
    let mut workload = released();
    workload.slowness = 1.3;
    workload.run(600);
    assert!(workload.target() <= 8.0, "{}", workload.learned());
}

#[test]
fn suspicion_ends_an_hour_after_the_release() {
    let mut workload = released();
    workload.run(3500);
    assert_ne!(workload.learner.suspicion, None);
    workload.run(200);
    assert_eq!(workload.learner.suspicion, None);
}

#[test]
fn good_result_above_a_bad_target_ends_the_suspicion() {
    let mut workload = released();
    workload.run(200);
    workload.learner.change_to(10.5, ChangeKind::Raise, workload.now());
    workload.run(120);
    assert_eq!(workload.learner.suspicion, None);
}

#[test]
fn load_of_a_memory_kill_is_suspected_until_there_are_readings() {
    for (memory, is_raised) in [(None, false), (Some((0.1, 0.01)), true)] {
        let mut workload = Workload::new(8.0);
        workload.run(60);
        workload.learner.out_of_memory(workload.now());
        let cap = workload.target();
        workload.learner.begin_epoch(1);
        workload.memory = memory;
        workload.run(900);
        assert_eq!(workload.target() > cap, is_raised, "{cap}: {}", workload.learned());
    }
}
