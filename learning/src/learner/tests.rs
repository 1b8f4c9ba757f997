//! A learner with pods of eight servers each, as a fluid: more than eight requests wait.

use std::time::Duration;

use super::*;
use crate::bracket::Tried;
use crate::{AppSecond, CpuReading, MissBudget};

mod cpu;
mod failed_requests;
mod memory;
mod missing_data;
mod restart;
mod suspicion;
mod without_number;

const T0: u64 = 1_600_000_000;
const SERVERS: f64 = 8.0;

/// A workload whose pods always carry the target.
pub(super) struct Workload {
    pub(super) learner: Learner,
    pub(super) second: u64,
    /// Seconds of a request on a server.
    service: f64,
    /// Factor on the time of every request, whatever its pod's load is.
    pub(super) slowness: f64,
    pub(super) pods: usize,
    /// Whether a pod refuses requests at once when all servers are busy.
    sheds: bool,
    /// Share of requests that fail at once, whatever the load is.
    failing: f64,
    /// Memory without requests and memory of a request, as shares of the limit.
    pub(super) memory: Option<(f64, f64)>,
    /// CPU without requests and CPU seconds of a request, as shares of the limit.
    cpu: Option<(f64, f64)>,
    /// The target by which the pods are scaled, if it is not the learned one.
    pub(super) in_force: Option<f64>,
    /// Seconds since the pods became ready; `None` for old ones.
    age: Option<u64>,
}

impl Workload {
    pub(super) fn new(user_target: f64) -> Self {
        let objective = Some(MissBudget(0.05));
        let learner = Learner::new(LearningSpec { user_target, objective, ..LearningSpec::default() }, 0);
        Self {
            learner,
            second: T0,
            service: 0.1,
            slowness: 1.0,
            pods: 10,
            sheds: false,
            failing: 0.0,
            memory: None,
            cpu: None,
            in_force: None,
            age: None,
        }
    }

    /// A workload without an objective.
    fn without_objective(user_target: f64) -> Self {
        let mut workload = Self::new(user_target);
        workload.learner.set_spec(LearningSpec { objective: None, ..workload.learner.spec });
        workload
    }

    /// A workload with a learned target that is only recommended.
    fn recommending(user_target: f64) -> Self {
        let mut workload = Self { in_force: Some(user_target), ..Self::new(user_target) };
        workload.learner.set_in_force(false);
        workload
    }

    pub(super) fn now(&self) -> Duration {
        Duration::from_secs(self.second)
    }

    /// A second of a pod. Its load is around the target; requests miss the objective of 0.3 s by
    /// the more the longer they take.
    fn pod(&self, index: usize) -> PodSecond {
        let target = self.in_force.unwrap_or_else(|| self.target());
        let spread = 0.7 + 0.6 * ((index as u64 * 7 + self.second * 3) % 10) as f64 / 10.0;
        let offered = target * spread;
        let concurrency = if self.sheds { offered.min(SERVERS) } else { offered };
        let time = self.service * self.slowness * (concurrency / SERVERS).max(1.0);
        let served = concurrency / time;
        let errors = (offered - concurrency) / time + self.failing * served;
        let completions = served + errors;
        let misses = served * (-0.3 / time).exp() * 0.2;
        let misses = if self.learner.spec.objective.is_some() { misses } else { 0.0 };
        let app = AppSecond { completions, seconds: served * time, misses, errors };
        PodSecond {
            age: Duration::from_secs(self.age.unwrap_or(600)),
            concurrency,
            arrivals: completions,
            app: Some(app),
            memory: self.reading(self.memory, concurrency),
            cpu: self.reading(self.cpu, completions).map(|share| CpuReading {
                share,
                from: self.now().saturating_sub(Duration::from_secs(1)),
                to: self.now(),
            }),
        }
    }

    /// A reading each 15 s.
    fn reading(&self, line: Option<(f64, f64)>, load: f64) -> Option<f64> {
        line.filter(|_| self.second.is_multiple_of(15)).map(|(base, each)| base + each * load)
    }

    pub(super) fn run(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.second += 1;
            self.age = self.age.map(|age| age + 1);
            let pods: Vec<_> = (0..self.pods).map(|index| self.pod(index)).collect();
            self.learner.observe(self.now(), &pods);
        }
    }

    pub(super) fn learned(&mut self) -> LearnedTarget {
        self.learner.decide(&DeciderSpec::default(), None, 10, self.now())
    }

    pub(super) fn target(&self) -> f64 {
        self.learner.learned().target
    }

    /// Replaces the learner, as a new leader does, by one of the state that was stored last.
    pub(super) fn restart(&mut self, stored: &str) {
        let state = serde_json::from_str(stored).unwrap();
        self.learner = Learner::restore(self.learner.spec, self.learner.epoch, state, self.now());
    }

    pub(super) fn stored(&self) -> String {
        serde_json::to_string(&self.learner.state(self.now())).unwrap()
    }
}

#[test]
fn low_target_is_raised_within_ten_minutes() {
    let mut workload = Workload::new(2.5);
    workload.run(600);
    assert!((7.0..=10.0).contains(&workload.target()), "{}", workload.learned());
}

#[test]
fn high_target_is_lowered_within_ten_minutes() {
    let mut workload = Workload::new(40.0);
    workload.run(600);
    assert!((10.0..=20.0).contains(&workload.target()), "{}", workload.learned());
    assert!(workload.learned().misses < 0.05);
}

#[test]
fn recommended_target_is_one_step_from_the_users() {
    for (user_target, expected) in [(40.0, 20.0..=37.2), (2.5, 2.8..=3.125)] {
        let mut workload = Workload::recommending(user_target);
        workload.run(900);
        let recommended = workload.learned();
        assert!(expected.contains(&recommended.target), "{recommended}");
        assert_eq!((recommended.phase, recommended.changes), (Phase::Settled, 1));
        workload.run(3 * 3600);
        assert_eq!(workload.learned().target, recommended.target);
    }
}

#[test]
fn recommendation_ends_with_its_evidence() {
    let mut workload = Workload::recommending(2.5);
    workload.run(900);
    assert!(workload.target() > 2.5);
    // In a slower app the user's target is too high already.
    workload.service = 1.2;
    workload.run(2 * 3600);
    assert!(workload.target() < 2.5, "{}", workload.learned());
}

#[test]
fn recommended_target_is_learned_on_once_it_is_in_force() {
    let mut workload = Workload::recommending(40.0);
    workload.run(900);
    workload.learner.set_in_force(true);
    workload.in_force = None;
    workload.run(900);
    assert!((8.0..=20.0).contains(&workload.target()), "{}", workload.learned());
}

#[test]
fn recommended_target_stays_one_after_another_objective_or_template() {
    let mut workload = Workload::recommending(40.0);
    workload.run(900);
    let spec = LearningSpec { threshold: Some(Duration::from_millis(250)), ..workload.learner.spec };
    workload.learner.set_spec(spec);
    assert_eq!((workload.target(), workload.learned().requests), (40.0, 0.0), "misses of another threshold");
    workload.learner.begin_epoch(1);
    assert!(!workload.learner.in_force);
    workload.run(900);
    assert_eq!(workload.learned().changes, 2, "one step each");
}

#[test]
fn one_quiet_pod_changes_nothing() {
    for mut workload in [Workload::new(20.0), Workload::without_objective(20.0), Workload::recommending(20.0)]
    {
        for _ in 0..3600 {
            workload.second += 1;
            let quiet = PodSecond { concurrency: 0.5, ..workload.pod(0) };
            let app = AppSecond { completions: 5.0, seconds: 0.5, misses: 0.0, errors: 0.0 };
            workload.learner.observe(workload.now(), &[PodSecond { app: Some(app), ..quiet }]);
        }
        assert_eq!((workload.target(), workload.learned().changes), (20.0, 0));
    }
}

#[test]
fn slow_dependency_freezes_target() {
    let mut workload = Workload::new(8.0);
    workload.run(900);
    let target = workload.target();
    workload.slowness = 4.0;
    workload.run(300);
    assert_eq!(workload.learned().phase, Phase::Frozen(FreezeReason::ServiceTimeChanged));
    workload.slowness = 1.0;
    workload.run(600);
    assert!((workload.target() / target - 1.0).abs() <= 0.05, "{target}: {}", workload.learned());
}

#[test]
fn target_stays_while_the_service_time_changes() {
    let mut workload = Workload::new(2.5);
    workload.run(225);
    // Too little for another regime, and most of the trial is from before.
    workload.slowness = 1.25;
    workload.run(30);
    assert_eq!(workload.target(), 2.5, "{}", workload.learned());
}

#[test]
fn overload_after_a_release_is_no_evidence() {
    let mut workload = Workload::new(8.0);
    workload.run(900);
    let target = workload.target();
    workload.learner.begin_epoch(1);
    workload.slowness = 6.0;
    workload.run(40);
    workload.slowness = 1.0;
    workload.run(100);
    assert!(workload.target() >= target, "{target}: {}", workload.learned());
}

#[test]
fn new_template_discards_evidence() {
    let mut workload = Workload::new(2.5);
    workload.run(600);
    let target = workload.target();
    workload.learner.begin_epoch(1);
    assert_eq!(workload.learned().phase, Phase::Observing);
    assert_eq!((workload.target(), workload.learned().requests), (target, 0.0));
    workload.service = 0.2;
    workload.run(100);
    assert_ne!(workload.learned().phase, Phase::Frozen(FreezeReason::ServiceTimeChanged));
}

#[test]
fn restart_keeps_target_and_other_settings_discard_it() {
    let mut workload = Workload::new(2.5);
    workload.run(600);
    let (spec, now) = (workload.learner.spec, workload.now());
    let state = workload.learner.state(now);
    let json = serde_json::to_string(&state).unwrap();
    let state: LearnerState = serde_json::from_str(&json).unwrap();
    let restored = |spec, epoch, now| Learner::restore(spec, epoch, state.clone(), now).learned().target;
    assert_eq!(restored(spec, 0, now), workload.target());
    let user_target = spec.user_target.next_up();
    assert_eq!(restored(LearningSpec { user_target, ..spec }, 0, now), workload.target(), "last bit");
    assert_eq!(restored(spec, 1, now), 2.5, "another template");
    assert_eq!(restored(spec, 0, now + Duration::from_secs(30 * 24 * 3600)), 2.5, "too old");
    assert_eq!(restored(LearningSpec { user_target: 3.0, ..spec }, 0, now), 3.0, "another target");
}

#[test]
fn state_of_another_objective_is_not_used() {
    let mut workload = Workload::new(2.5);
    workload.learner.set_spec(LearningSpec {
        threshold: Some(Duration::from_millis(300)),
        objective: Some(MissBudget(1.0 - 0.95)),
        ..workload.learner.spec
    });
    workload.run(600);
    let (spec, now) = (workload.learner.spec, workload.now());
    let json = serde_json::to_string(&workload.learner.state(now)).unwrap();
    let restored = |spec| Learner::restore(spec, 0, serde_json::from_str(&json).unwrap(), now);
    assert_ne!(workload.target(), 2.5);
    assert_eq!(restored(spec).target, workload.target());
    assert!(restored(spec).curve != LoadCurve::default());
    for other in [
        LearningSpec { objective: None, threshold: None, ..spec },
        LearningSpec { objective: Some(MissBudget(0.01)), ..spec },
        LearningSpec { threshold: Some(Duration::from_millis(200)), ..spec },
    ] {
        let learner = restored(other);
        assert_eq!((learner.target, learner.curve, learner.bracket.good), (2.5, LoadCurve::default(), None));
    }
}

#[test]
fn state_without_objective_keeps_target_and_no_results() {
    let mut workload = Workload::new(2.5);
    workload.run(600);
    workload.learner.out_of_memory(workload.now());
    let (spec, now) = (workload.learner.spec, workload.now());
    let mut json = serde_json::to_value(workload.learner.state(now)).unwrap();
    assert!(json.as_object_mut().unwrap().remove("objective").is_some());
    let learner = Learner::restore(spec, 0, serde_json::from_value(json).unwrap(), now);
    assert_eq!((learner.target, learner.memory_cap), (workload.target(), workload.learner.memory_cap));
    assert_eq!(
        (learner.curve, learner.bracket.good, learner.phase),
        (LoadCurve::default(), None, Phase::Observing)
    );
}

/// An hour in which a target of 4 had twice the pods of the user's 8.
fn pay_more_for_an_hour(workload: &mut Workload) -> LearnedTarget {
    workload.learner.target = 4.0;
    let spec = DeciderSpec { target: 8.0, ..DeciderSpec::default() };
    let averages = Some(WindowAverages { stable: 80.0, panic: 80.0 });
    for tick in 0..1900 {
        workload.learner.decide(&spec, averages, 20, workload.now() + Duration::from_secs(2 * tick));
    }
    workload.second += 3800;
    workload.learner.learned()
}

fn good(target: f64) -> Tried {
    Tried { target, severity: 0.5, at: Duration::ZERO }
}

#[test]
fn costs_raise_the_target_to_the_largest_good_one_at_most() {
    for (proven, expected) in
        [(None, 4.0), (Some(3.0), 4.0), (Some(4.0), 4.0), (Some(6.0), 6.0), (Some(9.0), 8.0)]
    {
        let mut workload = Workload::new(8.0);
        workload.run(30);
        workload.learner.bracket.good = proven.map(good);
        let learned = pay_more_for_an_hour(&mut workload);
        let reverted = expected > 4.0;
        assert_eq!((learned.target, learned.reverts), (expected, u64::from(reverted)), "{proven:?}");
        assert_eq!(learned.phase == Phase::Reverted, reverted, "{proven:?}");
    }
}

#[test]
fn release_keeps_a_reverted_target() {
    let mut workload = Workload::new(8.0);
    workload.run(30);
    workload.learner.bracket.good = Some(good(6.0));
    assert_eq!(pay_more_for_an_hour(&mut workload).phase, Phase::Reverted);
    workload.learner.begin_epoch(1);
    assert_eq!((workload.target(), workload.learned().phase), (6.0, Phase::Frozen(FreezeReason::Gap)));
}

#[test]
fn overload_ends_reverted() {
    let mut workload = Workload::new(8.0);
    workload.run(30);
    workload.learner.bracket.good = Some(good(8.0));
    assert_eq!(pay_more_for_an_hour(&mut workload).phase, Phase::Reverted);
    workload.run(60);
    assert_eq!(workload.learned().phase, Phase::Reverted);
    // As after a restart with an invalid change.
    let mut unknown = Workload { learner: workload.learner.clone(), ..workload };
    unknown.learner.last_change = None;
    for workload in [&mut workload, &mut unknown] {
        workload.in_force = Some(30.0);
        workload.run(300);
        assert_ne!(workload.learned().phase, Phase::Reverted);
    }
}

#[test]
fn lasting_change_of_the_service_time_ends_reverted() {
    let mut workload = Workload::new(8.0);
    workload.run(30);
    workload.learner.bracket.good = Some(good(8.0));
    assert_eq!(pay_more_for_an_hour(&mut workload).phase, Phase::Reverted);
    workload.run(300);
    workload.slowness = 3.0;
    workload.run(900);
    assert_ne!(workload.learned().phase, Phase::Reverted);
}
