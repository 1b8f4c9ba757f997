//! A target without any number of the user.

use super::*;

/// A workload without a user's target. The cluster's default is 70.
fn free() -> Workload {
    let mut workload = Workload::new(70.0);
    let spec = LearningSpec { factor: None, ..workload.learner.spec };
    workload.learner = Learner::new(spec, 0);
    workload
}

#[test]
fn target_starts_low_and_is_near_the_knee_after_five_minutes() {
    let mut workload = free();
    assert_eq!(workload.target(), 2.0);
    workload.run(300);
    assert!((6.0..=10.0).contains(&workload.target()), "{}", workload.learned());
}

#[test]
fn recommended_target_starts_from_the_default() {
    let spec = LearningSpec { applied: false, ..free().learner.spec };
    assert_eq!(Learner::new(spec, 0).learned().target, 70.0);
}

#[test]
fn slow_requests_of_cold_pods_are_no_evidence() {
    let mut workload = free();
    workload.slowness = 3.0;
    workload.age = Some(0);
    workload.run(55);
    assert_eq!(workload.learned().requests, 0.0);
    workload.slowness = 1.0;
    workload.run(300);
    assert!(workload.target() > 4.0, "{}", workload.learned());
}

/// Less than one pod's load shows nothing, so it must not end the search.
#[test]
fn quiet_start_does_not_settle_the_first_target() {
    let mut workload = free();
    workload.pods = 1;
    workload.in_force = Some(1.0);
    workload.run(1200);
    assert_eq!(workload.target(), 2.0, "{}", workload.learned());
    workload.pods = 10;
    workload.in_force = None;
    workload.run(1200);
    assert!((6.0..=10.0).contains(&workload.target()), "{}", workload.learned());
}

/// A backlog divided by a lower target would start that many more pods.
#[test]
fn target_after_an_overload_is_lower_once_that_has_ended() {
    let mut workload = free();
    while workload.target() < 5.0 {
        workload.run(1);
    }
    let raised = workload.target();
    workload.in_force = Some(30.0);
    workload.run(15);
    assert_eq!(workload.target(), raised, "{}", workload.learned());
    workload.in_force = Some(2.0);
    workload.run(15);
    assert!(workload.target() < raised, "{}", workload.learned());
}

/// A pod of websockets shows nothing, at any target.
#[test]
fn long_requests_are_reported_while_hardly_any_end() {
    let mut workload = free();
    workload.slowness = 3000.0;
    workload.run(290);
    assert!(!workload.learned().long_requests, "{}", workload.learned());
    workload.run(60);
    assert!(workload.learned().long_requests, "{}", workload.learned());
    workload.slowness = 1.0;
    workload.run(60);
    assert!(!workload.learned().long_requests, "{}", workload.learned());
}

#[test]
fn long_requests_are_not_reported_where_they_change_nothing() {
    let with = |spec| {
        let mut workload = free();
        workload.learner = Learner::new(spec, 0);
        workload.slowness = 3000.0;
        workload.run(600);
        workload.learned().long_requests
    };
    let spec = free().learner.spec;
    assert!(with(spec));
    assert!(!with(LearningSpec { factor: Some(4.0), ..spec }), "the user named a number");
    assert!(!with(LearningSpec { limit: Some(2.0), ..spec }), "the limit of the pods is no higher");
}
