//! Out-of-memory kills, and readings of the memory.

use super::*;

#[test]
fn memory_kills_lower_a_recommended_target_once() {
    let mut workload = Workload::recommending(10.0);
    workload.run(30);
    for _ in 0..5 {
        workload.run(30);
        workload.learner.out_of_memory(workload.now());
    }
    // The mean load of a pod was 9.7.
    assert!((workload.target() - 0.7 * 9.7).abs() < 1e-9, "{}", workload.learned());
}

#[test]
fn out_of_memory_kill_lowers_target_for_the_epoch() {
    let mut workload = Workload::new(2.5);
    workload.run(30);
    workload.learner.out_of_memory(workload.now());
    let lowered = 0.7 * 0.97 * 2.5;
    assert!((workload.target() - lowered).abs() < 1e-9);
    workload.run(1200);
    assert!(workload.target() <= lowered + 1e-9, "{}", workload.learned());
}

/// The first pod has all requests of the first seconds, whatever the target is.
#[test]
fn kill_of_a_pod_with_more_than_the_target_bounds_no_target_that_fits() {
    // 20 % of the limit without requests, and 5 % for each: a load of 7.5 fits.
    let mut workload = Workload { memory: Some((0.2, 0.05)), in_force: Some(24.0), ..Workload::new(2.0) };
    workload.run(10);
    workload.learner.out_of_memory(workload.now());
    for load in [1.0, 2.0, 3.0] {
        workload.in_force = Some(load);
        workload.run(150);
    }
    assert!(workload.learner.memory_cap.unwrap() > 2.0, "{}", workload.learned());
}

#[test]
fn readings_lower_target_before_a_kill() {
    // 20 % of the limit without requests, and 5 % for each: the peak of a balanced load of 7.5
    // fills it.
    let mut workload = Workload::new(4.0);
    workload.memory = Some((0.2, 0.05));
    workload.run(900);
    assert!((4.0..=7.6).contains(&workload.target()), "{}", workload.learned());
    let mut workload = Workload { in_force: Some(12.0), memory: Some((0.2, 0.05)), ..Workload::new(12.0) };
    for load in [3.0, 5.0, 7.0, 9.0] {
        workload.in_force = Some(load);
        workload.run(60);
    }
    assert!(workload.target() < 8.0, "{}", workload.learned());
}

#[test]
fn memory_of_caches_does_not_lower_target() {
    let mut workload = Workload { in_force: Some(5.0), memory: Some((0.9, 0.0)), ..Workload::new(5.0) };
    workload.run(120);
    workload.in_force = Some(8.0);
    workload.run(120);
    assert_eq!(workload.target(), 5.0, "{}", workload.learned());
}

#[test]
fn memory_kill_never_raises_a_recommended_target() {
    let mut workload = Workload::recommending(10.0);
    workload.run(30);
    workload.learner.target = 3.0;
    workload.learner.out_of_memory(workload.now());
    assert_eq!(workload.target(), 3.0, "{}", workload.learned());
}

#[test]
fn kill_limits_the_requests_of_a_pod_until_readings_show_how_many_fit() {
    // 20 % of the limit without requests, and 5 % for each: sixteen fit.
    let mut workload = Workload { memory: Some((0.2, 0.05)), in_force: Some(6.0), ..Workload::new(6.0) };
    workload.run(30);
    assert_eq!(workload.learned().temporary_limit, None);
    workload.learner.out_of_memory(workload.now());
    assert_eq!(workload.learned().temporary_limit, Some(5), "the load of a pod at the kill");
    workload.in_force = Some(3.0);
    workload.run(300);
    let shown = workload.learned().temporary_limit.unwrap();
    assert!((12..=16).contains(&shown), "{shown}");
    workload.restart(&workload.stored());
    assert_eq!(workload.learned().temporary_limit, Some(shown), "after a restart");
    workload.run(300);
    assert_eq!(workload.learned().temporary_limit, None, "ten minutes after the kill");
}

#[test]
fn kill_limits_no_pods_with_a_limit_or_another_target() {
    let mut recommending = Workload::recommending(6.0);
    let mut limited = Workload::new(6.0);
    limited.learner.set_spec(LearningSpec { limit: Some(7.0), ..limited.learner.spec });
    for workload in [&mut recommending, &mut limited] {
        workload.run(30);
        workload.learner.out_of_memory(workload.now());
        assert_eq!(workload.learned().temporary_limit, None);
    }
}
