//! What a restart or a change of leader loses.

use super::*;

/// Seconds between two writes of a state of which only the evidence differs.
const STORED_EACH: u64 = 300;

/// The run of a workload, of which a restart at this second finds the state as last stored: at the
/// last change of the target, or five minutes ago.
fn with_restart(mut workload: Workload, restart: u64, seconds: u64) -> Workload {
    let mut stored = workload.stored();
    for second in 0..seconds {
        let before = workload.target();
        workload.run(1);
        if workload.target() != before || second % STORED_EACH == 0 {
            stored = workload.stored();
        }
        if second == restart {
            let before = workload.target();
            workload.restart(&stored);
            assert_eq!(workload.target(), before, "the target jumps at second {second}");
        }
    }
    workload
}

#[test]
fn restart_at_any_time_loses_at_most_ten_minutes_and_never_jumps() {
    for restart in (10..900).step_by(70) {
        let raised = with_restart(Workload::new(2.5), restart, 1200);
        assert!((7.0..=10.0).contains(&raised.target()), "{restart}: {}", raised.learner.learned());
        let lowered = with_restart(Workload::new(40.0), restart, 1200);
        assert!((8.0..=20.0).contains(&lowered.target()), "{restart}: {}", lowered.learner.learned());
    }
}

#[test]
fn settled_target_stays_while_leaders_change() {
    let mut workload = Workload::new(8.0);
    workload.run(1500);
    let target = workload.target();
    for _ in 0..20 {
        workload.run(200);
        workload.restart(&workload.stored());
    }
    assert_eq!(workload.target(), target, "{}", workload.learned());
}

#[test]
fn readings_replace_guess_after_a_kill_in_spite_of_a_restart() {
    // 20 % of the limit without requests, and 5 % for each: a load of 7.5 fits.
    let killed = |restarts: bool| {
        let mut workload = Workload::new(6.0);
        workload.memory = Some((0.2, 0.05));
        workload.in_force = Some(3.0);
        workload.run(60);
        workload.learner.out_of_memory(workload.now());
        let guess = workload.learner.memory_cap.unwrap();
        if restarts {
            workload.restart(&workload.stored());
        }
        workload.in_force = Some(5.0);
        workload.run(200);
        (guess, workload.learner.memory_cap.unwrap())
    };
    let (guess, cap) = killed(true);
    assert!(cap > 1.2 * guess, "{guess}: {cap}");
    assert_eq!(killed(true), killed(false));
}

#[test]
fn restart_keeps_rests_and_the_watch_after_a_raise() {
    let mut workload = Workload::new(8.0);
    workload.run(900);
    workload.learner.change_to(10.0, ChangeKind::Raise, workload.now());
    workload.restart(&workload.stored());
    workload.slowness = 4.0;
    workload.run(120);
    assert!(workload.target() < 10.0, "{}", workload.learned());

    workload.learner.raise_after = workload.now() + Duration::from_secs(1800);
    workload.learner.pause = 3600;
    workload.learner.frozen_until = workload.now() + Duration::from_secs(600);
    let before = workload.learner.clone();
    workload.restart(&workload.stored());
    let after = &workload.learner;
    assert_eq!(
        (after.raise_after, after.pause, after.frozen_until),
        (before.raise_after, before.pause, before.frozen_until)
    );
}

#[test]
fn restart_continues_the_hour_of_costs() {
    let mut workload = Workload::new(8.0);
    workload.run(30);
    workload.learner.bracket.record_good(Tried { target: 8.0, severity: 0.5, at: Duration::ZERO });
    workload.learner.target = 4.0;
    let spec = DeciderSpec { target: 8.0, ..DeciderSpec::default() };
    let averages = Some(WindowAverages { stable: 80.0, panic: 80.0 });
    for tick in 0..1900 {
        if tick % 500 == 499 {
            workload.restart(&workload.stored());
        }
        workload.second += 2;
        workload.learner.decide(&spec, averages, 20, workload.now());
    }
    assert_eq!((workload.target(), workload.learner.learned().phase), (8.0, Phase::Reverted));
}

#[test]
fn times_of_another_clock_hold_no_target_back() {
    let mut workload = Workload::new(2.5);
    workload.run(200);
    workload.learner.raise_after = Duration::from_secs(u64::MAX);
    workload.learner.last_change = Some(Change::release(2.5, Duration::from_secs(u64::MAX)));
    workload.restart(&workload.stored());
    assert!(
        workload.learner.raise_after <= workload.now() + Duration::from_secs(tuning::steps::LONGEST_PAUSE)
    );
    assert_eq!(workload.learner.last_change, None);
}
