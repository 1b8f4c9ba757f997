//! Laws of reverts, over hours of readings: what may raise a target, and what ends `Reverted`.

use proptest::prelude::*;

use super::tests::Workload;
use super::*;
use crate::MissBudget;
use crate::shadow::HourResult;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Good seconds, bad ones of slow requests, and panics: overloaded pods or too many.
    Seconds {
        seconds: u64,
        slowness: f64,
        load: f64,
        pods: usize,
    },
    /// Memory without requests and of a request, of all later readings.
    Memory(Option<(f64, f64)>),
    Gap(u64),
    Kill,
    Release,
    Restart,
    Limit(Option<f64>),
    Hour {
        costs_more: bool,
        misses_more: bool,
    },
}

/// What a law compares before and after a call.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    target: f64,
    good: Option<f64>,
    start: f64,
    reverts: u64,
    last_change: Option<Change>,
}

// === impl Snapshot ===

impl Snapshot {
    fn of(learner: &Learner) -> Self {
        Self {
            target: learner.target,
            good: learner.bracket.good.map(|good| good.target),
            start: learner.spec.start(),
            reverts: learner.reverts,
            last_change: learner.last_change,
        }
    }

    /// The largest target that a revert may set: one with a good result, and the user's without
    /// any.
    fn proven(&self) -> f64 {
        self.good.unwrap_or(self.start)
    }

    /// Whether a change back to this target ends a lower one that had no effect: the pair of
    /// trials is its evidence.
    fn ends_useless_lower(&self, target: f64) -> bool {
        let lowered = self.last_change.filter(|change| change.kind == ChangeKind::Lower);
        lowered.is_some_and(|change| target <= change.from)
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let slowness = prop_oneof![4 => Just(1.0), 1 => 0.4..1.0, 1 => 1.0..6.0];
    let load = prop_oneof![6 => Just(1.0), 1 => 0.2..1.0, 2 => 2.2..5.0];
    let seconds = prop_oneof![9 => 5..400_u64, 1 => 600..900_u64];
    let seconds = (seconds, slowness, load, 1..8_usize)
        .prop_map(|(seconds, slowness, load, pods)| Event::Seconds { seconds, slowness, load, pods });
    let memory = prop::option::of((0.1..0.5, 0.0..0.1));
    let event = prop_oneof![
        12 => seconds,
        1 => memory.prop_map(Event::Memory),
        1 => (1..60_u64).prop_map(Event::Gap),
        1 => Just(Event::Kill),
        1 => Just(Event::Release),
        2 => Just(Event::Restart),
        2 => prop::option::of(1.0..16.0).prop_map(Event::Limit),
        4 => any::<(bool, bool)>().prop_map(|(costs_more, misses_more)| Event::Hour { costs_more, misses_more }),
    ];
    prop::collection::vec(event, 1..50)
}

/// Targets of users, mostly below what a pod serves: from there learning raises them.
fn users() -> impl Strategy<Value = f64> {
    prop_oneof![3 => 2.0..8.0, 1 => 8.0..40.0]
}

fn workload(user_target: f64, has_objective: bool) -> Workload {
    let mut workload = Workload::new(user_target);
    let objective = has_objective.then_some(MissBudget(0.05));
    workload.learner.set_spec(LearningSpec { objective, ..workload.learner.spec });
    workload
}

/// Applies an event, and calls `check` after each call of the learner.
fn apply(
    workload: &mut Workload,
    event: Event,
    mut check: impl FnMut(&Learner, Snapshot) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let before = Snapshot::of(&workload.learner);
    match event {
        Event::Seconds { seconds, slowness, load, pods } => {
            (workload.slowness, workload.pods) = (slowness, pods);
            for _ in 0..seconds {
                let before = Snapshot::of(&workload.learner);
                workload.in_force = Some(load * before.target);
                workload.run(1);
                check(&workload.learner, before)?;
            }
        }
        Event::Memory(memory) => workload.memory = memory,
        Event::Gap(seconds) => workload.second += seconds,
        Event::Kill => workload.learner.out_of_memory(workload.now()),
        Event::Release => workload.learner.begin_epoch(workload.learner.epoch + 1),
        Event::Restart => workload.restart(&workload.stored()),
        Event::Limit(limit) => {
            workload.learner.set_spec(LearningSpec { limit, ..workload.learner.spec });
        }
        Event::Hour { costs_more, misses_more } => {
            let hour = HourResult { costs_more, misses_more };
            workload.learner.compare_with_user(hour, workload.now());
        }
    }
    if matches!(event, Event::Seconds { .. }) { Ok(()) } else { check(&workload.learner, before) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A target that was never proven good may be a lasting overload.
    #[test]
    fn no_revert_raises_the_target_above_the_largest_good_one(
        user in users(), has_objective: bool, events in events(),
    ) {
        let mut workload = workload(user, has_objective);
        for event in events {
            apply(&mut workload, event, |learner, before| {
                let (after, reverted) = (learner.target, learner.reverts > before.reverts);
                let most = match event {
                    Event::Hour { .. } if reverted => before.proven(),
                    Event::Seconds { .. } if !reverted || before.ends_useless_lower(after) => f64::INFINITY,
                    // The lower bound may be above the present target.
                    Event::Limit(_) => f64::INFINITY,
                    _ => before.target,
                };
                prop_assert!(after <= most, "{before:?}: {after} after {event:?}");
                Ok(())
            })?;
        }
    }

    /// `Reverted` switches the steps off, so an overload there would last.
    #[test]
    fn overload_ends_reverted_after_any_history(
        user in users(), has_objective: bool, events in events(), load in 3.0..5.0f64,
    ) {
        let mut workload = workload(user, has_objective);
        for event in events {
            apply(&mut workload, event, |_, _| Ok(()))?;
        }
        let overload = Event::Seconds { seconds: 120, slowness: 1.0, load, pods: 3 };
        apply(&mut workload, overload, |_, _| Ok(()))?;
        prop_assert_ne!(workload.learner.phase, Phase::Reverted, "at {}", workload.target());
    }
}
