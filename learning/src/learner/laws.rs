//! Laws for any numbers, times and orders of calls.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::{AppSecond, CpuReading, MissBudget};

/// Bound of a learner's memory.
const MEMORY: usize = 16 * 1024;
/// Sums of one bin of a curve: five floats.
const CURVE: usize = 48 * 5 * size_of::<f64>();

#[derive(Clone, Debug)]
enum Call {
    Observe(Duration, Vec<PodSecond>),
    Decide(Duration, Option<WindowAverages>, u32),
    OutOfMemory(Duration),
    BeginEpoch(u64),
    SetSpec(LearningSpec),
    SetInForce(bool),
    Restart(Duration),
}

fn floats() -> impl Strategy<Value = f64> {
    let special = prop::sample::select(vec![0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300]);
    prop_oneof![12 => 0.0..200.0, 1 => special, 1 => prop::num::f64::ANY]
}

fn times() -> impl Strategy<Value = Duration> {
    prop_oneof![
        20 => (0..4000_u64).prop_map(|second| Duration::from_secs(1_600_000_000 + second)),
        1 => any::<u64>().prop_map(Duration::from_secs),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::MAX),
    ]
}

fn pods() -> impl Strategy<Value = Vec<PodSecond>> {
    let app = prop::option::of((floats(), floats(), floats(), floats()));
    let share = || prop::option::of(floats());
    let pod = (0..100_u64, floats(), floats(), app, share(), prop::option::of((floats(), times(), times())));
    let pod = pod.prop_map(|(age, concurrency, arrivals, app, memory, cpu)| PodSecond {
        age: Duration::from_secs(age),
        concurrency,
        arrivals,
        app: app.map(|(completions, seconds, misses, errors)| AppSecond {
            completions,
            seconds,
            misses,
            errors,
        }),
        memory,
        cpu: cpu.map(|(share, from, to)| CpuReading { share, from, to }),
    });
    prop::collection::vec(pod, 0..5)
}

fn specs() -> impl Strategy<Value = LearningSpec> {
    let factor = prop_oneof![4 => Just(Some(4.0)), 1 => prop::option::of(floats())];
    (floats(), prop::option::of(floats()), factor, prop::option::of(0.001..0.5)).prop_map(
        |(user_target, limit, factor, objective)| LearningSpec {
            user_target,
            limit,
            factor,
            applied: true,
            objective: objective.map(MissBudget),
            threshold: objective.map(|_| Duration::from_millis(200)),
        },
    )
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let averages = prop::option::of((floats(), floats()))
        .prop_map(|averages| averages.map(|(stable, panic)| WindowAverages { stable, panic }));
    let call = prop_oneof![
        20 => (times(), pods()).prop_map(|(at, pods)| Call::Observe(at, pods)),
        8 => (times(), averages, any::<u32>()).prop_map(|(at, a, ready)| Call::Decide(at, a, ready)),
        1 => times().prop_map(Call::OutOfMemory),
        1 => any::<u64>().prop_map(Call::BeginEpoch),
        1 => specs().prop_map(Call::SetSpec),
        1 => any::<bool>().prop_map(Call::SetInForce),
        1 => times().prop_map(Call::Restart),
    ];
    prop::collection::vec(call, 0..200)
}

fn apply(learner: &mut Learner, call: Call) {
    match call {
        Call::Observe(at, pods) => learner.observe(at, &pods),
        Call::Decide(at, averages, ready) => {
            learner.decide(&DeciderSpec::default(), averages, ready, at);
        }
        Call::OutOfMemory(at) => learner.out_of_memory(at),
        Call::BeginEpoch(epoch) => learner.begin_epoch(epoch),
        Call::SetSpec(spec) => learner.set_spec(spec),
        Call::SetInForce(in_force) => learner.set_in_force(in_force),
        Call::Restart(at) => {
            let stored = serde_json::to_string(&learner.state(at)).unwrap();
            match serde_json::from_str(&stored) {
                Ok(state) => *learner = Learner::restore(learner.spec, learner.epoch, state, at),
                // JSON has no infinity.
                Err(error) => assert!(!learner.spec.user_target.is_finite(), "{error}: {stored}"),
            }
        }
    }
}

proptest! {
    #[test]
    fn target_stays_within_bounds_for_any_input(spec in specs(), calls in calls()) {
        let mut learner = Learner::new(spec, 0);
        for call in calls {
            apply(&mut learner, call);
            let LearnedTarget { target, confidence, backlog, .. } = learner.learned();
            prop_assert!(learner.spec.bounds().contains(&target), "{target} of {:?}", learner.spec);
            prop_assert!((0.0..=1.0).contains(&confidence));
            prop_assert!(backlog.is_finite() && backlog >= 1.0, "{backlog}");
            prop_assert!(backlog == 1.0 || learner.spec.factor.is_none(), "the HPA follows all of the load");
            prop_assert!(learner.curve.is_valid(), "a damaged curve would not be restored");
        }
    }

    #[test]
    fn target_stays_without_enough_requests(
        user in 0.1..100.0f64,
        seconds in prop::collection::vec((0.0..2.0f64, 0..2u32, any::<bool>()), 0..74),
    ) {
        let spec = LearningSpec { user_target: user, objective: Some(MissBudget(0.05)), ..LearningSpec::default() };
        let mut learner = Learner::new(spec, 0);
        for (second, (concurrency, completions, missed)) in (1_600_000_000..).zip(seconds) {
            let completions = f64::from(completions);
            let misses = if missed { completions } else { 0.0 };
            let app = AppSecond { completions, seconds: completions, misses, errors: 0.0 };
            let pod = PodSecond { age: Duration::from_secs(600), concurrency, arrivals: completions, app: Some(app), ..PodSecond::default() };
            learner.observe(Duration::from_secs(second), &[pod, pod]);
            prop_assert_eq!(learner.learned().target, user);
        }
    }
}

proptest! {
    /// A limit that outlives its cause would hold requests back for nothing.
    #[test]
    fn pods_have_a_limit_only_within_ten_minutes_after_a_kill(spec in specs(), calls in calls()) {
        let mut learner = Learner::new(spec, 0);
        let mut last_kill = None;
        for call in calls {
            let decided = if let Call::Decide(at, ..) = call { Some(at) } else { None };
            if let Call::OutOfMemory(at) = call {
                last_kill = last_kill.max(Some(at));
            }
            apply(&mut learner, call);
            let limit = learner.learned().temporary_limit;
            prop_assert!(limit.is_none_or(|limit| limit > 0));
            if let (Some(_), Some(at)) = (limit, decided) {
                prop_assert!(last_kill.is_some_and(|kill| at.saturating_sub(kill) <= Duration::from_secs(600)));
            }
        }
    }
}

/// The fields that earlier versions did not store.
fn later_fields() -> impl Strategy<Value = Option<[(&'static str, serde_json::Value); 8]>> {
    let number = || prop_oneof![3 => 0.0..200.0, 1 => -1e9..1e9, 1 => Just(0.0), 1 => Just(1e300)];
    let numbers = prop::array::uniform12(number());
    let second = || times().prop_map(|time| serde_json::to_value(time).unwrap());
    let kind = prop::sample::select(vec!["Raise", "Lower", "Restore", "Memory", "Release"]);
    let fields = (numbers, kind, second(), second(), any::<u64>()).prop_map(|(n, kind, at, until, pause)| {
        let change = serde_json::json!({
            "at": at, "from": n[0], "kind": kind, "wasSettled": true, "load": n[1], "time": n[2],
            "misses": n[3], "deviation": n[4],
        });
        let memory = serde_json::json!({
            "readings": n[5], "loads": n[6], "shares": n[7], "loadSquares": n[8],
            "shareSquares": n[9], "products": n[10], "least": n[11], "killed": false,
        });
        let cpu = serde_json::json!({
            "readings": n[5], "loads": n[11], "shares": n[9], "loadSquares": n[8],
            "shareSquares": n[7], "products": n[6], "least": n[10],
        });
        let costs = serde_json::json!({
            "since": at, "learned": n[0], "shadow": n[1], "requests": n[2], "misses": n[3],
        });
        let former = serde_json::json!({"throughput": n[1], "time": n[2]});
        let suspicion = serde_json::json!({"target": n[0], "at": at, "cause": {"slow": former}});
        [
            ("guessedAt", serde_json::json!(n[0])),
            ("limit", serde_json::json!({"requests": 3, "until": until})),
            ("memory", memory),
            ("cpu", cpu),
            ("lastChange", change),
            ("rests", serde_json::json!({"frozenUntil": until, "raiseAfter": at, "pause": pause})),
            ("costs", costs),
            ("suspicion", suspicion),
        ]
    });
    prop::option::of(fields)
}

/// A stored state with any numbers, as another process may have written it.
fn stored_states() -> impl Strategy<Value = String> {
    let number = || prop_oneof![3 => 0.0..200.0, 1 => -1e9..1e9, 1 => Just(0.0), 1 => Just(1e300)];
    let bins = prop::collection::vec((0..48_usize, prop::array::uniform5(number())), 0..9);
    let tried = || prop::option::of((number(), number()));
    let results = (tried(), tried(), bins, later_fields());
    (number(), prop::option::of(number()), any::<(bool, bool, bool)>(), results).prop_map(
        |(target, memory_cap, (settled, reverted, is_known), (good, bad, bins, later))| {
            let tried = |tried: Option<(f64, f64)>| {
                tried.map(|(target, severity)| {
                    let at = serde_json::json!({"secs": 1_600_000_000, "nanos": 0});
                    serde_json::json!({"target": target, "severity": severity, "at": at})
                })
            };
            // Also as an earlier version stored it.
            let objective = is_known.then(|| serde_json::json!({"budget": 0.05, "threshold": null}));
            let mut state = serde_json::json!({
                "epoch": 0, "target": target, "userTarget": 20.0, "memoryCap": memory_cap,
                "objective": objective, "settled": settled, "reverted": reverted,
                "bracket": {"good": tried(good), "bad": tried(bad)}, "curve": bins,
                "savedAt": {"secs": 1_600_000_000, "nanos": 0},
            });
            for (name, field) in later.into_iter().flatten() {
                state[name] = field;
            }
            state.to_string()
        },
    )
}

proptest! {
    #[test]
    fn target_stays_within_bounds_after_any_stored_state(stored in stored_states(), calls in calls()) {
        let spec = LearningSpec { user_target: 20.0, objective: Some(MissBudget(0.05)), ..LearningSpec::default() };
        let state: LearnerState = serde_json::from_str(&stored).unwrap();
        let mut learner = Learner::restore(spec, 0, state, Duration::from_secs(1_600_000_000));
        for call in calls {
            apply(&mut learner, call);
            let target = learner.learned().target;
            prop_assert!(learner.spec.bounds().contains(&target), "{target} of {:?}", learner.spec);
        }
    }
}

#[test]
fn memory_is_bounded() {
    // Its heap memory: its own curve and the block of its regime, of which `is_valid` in the law
    // above checks that they keep their number of bins, and the throughputs of 128 seconds.
    let total = size_of::<Learner>() + 2 * CURVE + 128 * size_of::<f64>();
    assert!(total <= MEMORY, "{total} bytes");
}
