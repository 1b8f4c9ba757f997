//! Readings of the CPU.

use super::*;

/// Pods that use 10 % of their CPU limit without requests, and 1 % for each request of a second: 85
/// % is 75 requests a second. Their load goes up and down, and stays far below the target.
fn with_little_load(target: f64) -> Workload {
    let mut workload = Workload { cpu: Some((0.1, 0.01)), ..Workload::new(target) };
    for load in [1.0, 2.0, 3.0, 4.0, 3.0, 2.0] {
        workload.in_force = Some(load);
        workload.run(60);
    }
    workload
}

#[test]
fn readings_lower_target_before_an_overload() {
    // 75 a second, each in 100 ms and 57 ms of waiting for the CPU.
    let workload = with_little_load(40.0);
    assert!((11.7..13.0).contains(&workload.target()), "{}", workload.learner.learned());
    let basis = workload.learner.state(workload.now()).basis(&workload.learner.spec);
    assert_eq!(basis.binding, Some(TargetBound::Cpu), "{basis:?}");
}

#[test]
fn readings_keep_a_target_within_the_cpu_limit() {
    let workload = with_little_load(10.0);
    assert_eq!(workload.target(), 10.0, "{}", workload.learner.learned());
}

#[test]
fn target_stays_where_it_is_only_recommended_or_nothing_is_read() {
    for cpu in [None, Some((0.1, 0.01))] {
        let mut workload = Workload { cpu, ..Workload::recommending(40.0) };
        workload.learner.set_in_force(cpu.is_none());
        for load in [1.0, 2.0, 3.0, 4.0, 3.0, 2.0] {
            workload.in_force = Some(load);
            workload.run(60);
        }
        assert_eq!(workload.target(), 40.0, "{}", workload.learner.learned());
    }
}

#[test]
fn readings_outlive_a_restart() {
    let mut workload = with_little_load(10.0);
    let before = workload.learner.cpu.possible_room(0.1);
    workload.restart(&workload.stored());
    let after = workload.learner.cpu.possible_room(0.1);
    let load = |room: Option<CpuRoom>| room.unwrap().load;
    assert!((load(after) / load(before) - 1.0).abs() < 1e-9, "{after:?}");
}
