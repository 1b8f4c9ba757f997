//! Learner: the state of one workload, and the order of its rules.
//!
//! The caller gives every second of the pods to [`observe`](Learner::observe), and calls
//! [`decide`](Learner::decide) with each decision. Steps happen at the end of a block of ten
//! seconds; the child module `steps` has them, `breach` has what cannot wait until then,
//! `resources` has the rules about CPU and memory of the pods, `release` what a new pod template
//! keeps, and `state` what outlives a restart.

mod breach;
mod change;
mod failures;
mod overload;
mod readings;
mod release;
mod resources;
mod state;
mod steps;
mod suspicion;
mod temporary_limit;

use std::time::Duration;

use change::{Change, ChangeKind, Pending};
use failures::Failures;
use overload::Overload;
use readings::cpu_line::CpuLine;
pub use readings::cpu_line::CpuRoom;
use readings::memory_line::MemoryLine;
use readings::throughputs::Throughputs;
pub use state::{CurvePoint, LearnerState, MemoryRoom, TargetBasis, TargetBound};
use suspicion::Suspicion;
use temporary_limit::TemporaryLimit;

use autoscaler::learning_report::{FreezeReason, Phase};
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::stats::collection::WindowAverages;

use crate::bounds::LearningSpec;
use crate::bracket::Bracket;
use crate::curve::{LoadCurve, Sums};
use crate::feed::{Feed, FeedCheck};
use crate::learned_target::LearnedTarget;
use crate::observation::PodSecond;
use crate::regime::{BlockResult, Regime};
use crate::shadow::Shadow;
use crate::trial::Trial;
use crate::tuning;

/// What learns one workload's target.
#[derive(Clone, Debug)]
pub struct Learner {
    spec: LearningSpec,
    epoch: u64,
    target: f64,
    /// Whether the pods are scaled by this target, and not by the user's.
    in_force: bool,
    /// Memory of a pod at each load.
    memory: MemoryLine,
    /// CPU of a pod at each throughput.
    cpu: CpuLine,
    throughputs: Throughputs,
    /// Upper bound after an out-of-memory kill, for the epoch.
    memory_cap: Option<f64>,
    /// The target at a kill before there were enough readings. Until then the cap is a guess.
    guessed_at: Option<f64>,
    /// What a pod may have at a time after an out-of-memory kill.
    limit: Option<TemporaryLimit>,
    phase: Phase,
    feed: Feed,
    regime: Regime,
    curve: LoadCurve,
    trial: Trial,
    failures: Failures,
    /// All seconds since the last change, at load or not.
    aftermath: Trial,
    /// Those of them in which the pods were overloaded.
    overload: Overload,
    /// A restored target that comes into force when the overload has ended.
    pending: Option<Pending>,
    /// All seconds of the present block.
    latest: Trial,
    bracket: Bracket,
    suspicion: Option<Suspicion>,
    shadow: Shadow,
    /// Start of the epoch's data.
    began_at: Option<Duration>,
    block_since: Option<Duration>,
    last_change: Option<Change>,
    frozen_until: Duration,
    /// Seconds for which raises rest after the next breach.
    pause: u64,
    raise_after: Duration,
    changes: u64,
    reverts: u64,
}

// === impl Learner ===

impl Learner {
    /// A learner without evidence. `epoch` identifies the pod template with its resources.
    pub fn new(spec: LearningSpec, epoch: u64) -> Self {
        Self {
            spec,
            epoch,
            target: spec.start(),
            in_force: true,
            memory: MemoryLine::default(),
            cpu: CpuLine::default(),
            throughputs: Throughputs::default(),
            memory_cap: None,
            guessed_at: None,
            limit: None,
            phase: Phase::Observing,
            feed: Feed::default(),
            regime: Regime::default(),
            curve: LoadCurve::default(),
            trial: Trial::default(),
            failures: Failures::default(),
            aftermath: Trial::default(),
            latest: Trial::default(),
            overload: Overload::default(),
            pending: None,
            bracket: Bracket::default(),
            suspicion: None,
            shadow: Shadow::default(),
            began_at: None,
            block_since: None,
            last_change: None,
            frozen_until: Duration::ZERO,
            pause: tuning::steps::FIRST_PAUSE,
            raise_after: Duration::ZERO,
            changes: 0,
            reverts: 0,
        }
    }

    /// Applies other settings. Another target of the user, or another objective, starts anew. A
    /// target that other bounds move has no results yet.
    pub fn set_spec(&mut self, spec: LearningSpec) {
        if !spec.has_evidence_of(&self.spec) {
            *self = self.without_evidence(spec, self.epoch);
        }
        self.spec = spec;
        self.change_to(self.target, ChangeKind::Bound, self.feed.last().unwrap_or_default());
    }

    /// Sets whether the target is in force (the default) or only recommended. A target that is not
    /// in force has no results, so a recommended one is a single step from the user's.
    pub fn set_in_force(&mut self, in_force: bool) {
        if in_force != self.in_force {
            self.trial = Trial::default();
            self.aftermath = Trial::default();
            self.overload.clear();
            self.pending = None;
        }
        self.in_force = in_force;
    }

    /// Adds the second `at`, in Unix time, of all pods.
    pub fn observe(&mut self, at: Duration, pods: &[PodSecond]) {
        match self.feed.check(at, pods, self.spec.objective.is_some()) {
            FeedCheck::Late => return,
            FeedCheck::Broken => return self.discard_trial(at),
            FeedCheck::Usable => {}
        }
        self.began_at.get_or_insert(at);
        let mut all = Sums::default();
        let cold = if self.spec.is_free() { tuning::evidence::COLD_POD } else { tuning::evidence::YOUNG_POD };
        for pod in pods.iter().filter(|pod| pod.is_plausible()) {
            let second = sums(pod);
            if pod.age < cold {
                self.overload.add_cold(&second);
                continue;
            }
            self.regime.compare(&second, &self.curve);
            all.add(&second);
        }
        self.add_memory(pods);
        self.add_cpu(pods, at);
        self.shadow.add_requests(all.completions, all.misses);
        self.failures.add(&all);
        if self.fails() {
            return self.stop_at_failures(at);
        }
        if all.seconds > 0.0 {
            self.regime.add(&all);
            self.aftermath.add(&all);
            self.latest.add(&all);
            self.add_overload(&all, pods, at);
        }
        if self.is_at_load(&all) && self.is_past_settling(at) {
            self.trial.add(&all);
        }
        self.restore_after_breach(at);
        let since = *self.block_since.get_or_insert(at);
        if at.saturating_sub(since) >= tuning::evidence::BLOCK {
            self.block_since = Some(at);
            self.end_block(at);
            self.latest = Trial::default();
        }
    }

    /// The target at `now`, in Unix time. `averages` and `ready` are the inputs of the workload's
    /// decision, and `user_spec` is the decider's spec with the user's target: they serve the
    /// comparison of costs.
    pub fn decide(
        &mut self,
        user_spec: &DeciderSpec,
        averages: Option<WindowAverages>,
        ready: u32,
        now: Duration,
    ) -> LearnedTarget {
        let budget = self.spec.objective.map_or(1.0, |budget| budget.0);
        if let Some(hour) = self.shadow.tick(user_spec, averages, ready, budget, now) {
            self.compare_with_user(hour, now);
        }
        self.refresh_phase(now);
        self.limit = self.limit.filter(|limit| limit.holds(now));
        self.learned()
    }

    /// The target with its evidence.
    pub fn learned(&self) -> LearnedTarget {
        let sums = &self.trial.sums;
        LearnedTarget {
            target: self.target,
            backlog: self.overload.backlog(),
            temporary_limit: self.temporary_limit(),
            phase: self.phase,
            long_requests: self.has_long_requests(),
            confidence: self.confidence(),
            changes: self.changes,
            reverts: self.reverts,
            load: sums.mean_load(),
            time: sums.mean_time(),
            misses: sums.miss_rate(),
            requests: sums.completions,
        }
    }

    /// The learner of other settings or another epoch.
    fn without_evidence(&self, spec: LearningSpec, epoch: u64) -> Self {
        let (in_force, changes, reverts) = (self.in_force, self.changes, self.reverts);
        Self { in_force, changes, reverts, ..Self::new(spec, epoch) }
    }

    fn confidence(&self) -> f64 {
        let part = match self.phase {
            Phase::Settled => 1.0,
            Phase::Exploring => tuning::evidence::EXPLORING_CONFIDENCE,
            Phase::Observing | Phase::Frozen(_) | Phase::Reverted => 0.0,
        };
        part * (self.trial.sums.completions / tuning::evidence::FULL_CONFIDENCE).min(1.0)
    }

    /// Whether the pods are as loaded as the target wants: more pods than that, after a panic or
    /// before the HPA removes them, look healthy at any target.
    fn is_at_load(&self, all: &Sums) -> bool {
        let needed = (all.load / self.target).ceil().max(1.0);
        all.seconds > 0.0
            && (all.mean_load() >= tuning::evidence::AT_LOAD * self.target || all.seconds <= needed)
    }

    /// Whether the pods that follow the last change have started or ended.
    fn is_past_settling(&self, at: Duration) -> bool {
        self.last_change.is_none_or(|change| at.saturating_sub(change.at) >= change.settling())
    }

    fn end_block(&mut self, at: Duration) {
        self.curve.decay(tuning::curve::FADING);
        self.memory.decay(tuning::curve::FADING);
        self.cpu.decay(tuning::curve::FADING);
        self.fit_resources(at);
        let good = self.bracket.good.map(|_| self.target);
        let result = self.regime.end_block(&mut self.curve, good, at);
        if result != BlockResult::Agrees {
            self.undo_recent_raise(at);
            self.trial = Trial::default();
        }
        if result == BlockResult::Rebased {
            self.bracket = Bracket::default();
            self.cpu = CpuLine::default();
            self.phase = Phase::Observing;
            self.last_change = None;
            self.began_at = Some(at);
        }
        self.refresh_phase(at);
        let may_step = self.pending.is_none() && !matches!(self.phase, Phase::Frozen(_) | Phase::Reverted);
        if result == BlockResult::Agrees && may_step {
            self.step(at);
        }
    }

    /// Whether too many requests fail, in a workload without an objective.
    fn fails(&self) -> bool {
        self.spec.objective.is_none() && self.failures.are_many()
    }

    fn refresh_phase(&mut self, now: Duration) {
        let reason = match self.feed.fault(now) {
            Some(fault) => Some(fault),
            None if self.fails() => Some(FreezeReason::FailedRequests),
            None if self.regime.is_unstable(now) => Some(FreezeReason::ServiceTimeChanged),
            None if now < self.frozen_until => Some(FreezeReason::NotConcurrency),
            None => None,
        };
        if matches!(self.phase, Phase::Frozen(_)) && reason.is_none() {
            self.trial = Trial::default();
        }
        self.phase = match (self.phase, reason) {
            (Phase::Reverted, _) => Phase::Reverted,
            (_, Some(reason)) => Phase::Frozen(reason),
            (Phase::Frozen(_), None) => Phase::Observing,
            (phase, None) => phase,
        };
    }

    fn discard_trial(&mut self, at: Duration) {
        self.trial = Trial::default();
        self.latest = Trial::default();
        self.regime.drop_block();
        self.block_since = Some(at);
        self.began_at = Some(at);
        self.refresh_phase(at);
    }

    fn change_to(&mut self, target: f64, kind: ChangeKind, at: Duration) {
        if target.is_nan() {
            return;
        }
        self.pending = None;
        let target = self.spec.clamp(target.min(self.memory_cap.unwrap_or(f64::INFINITY)));
        if target == self.target {
            return;
        }
        let sums = &self.trial.sums;
        self.last_change = Some(Change {
            at,
            from: self.target,
            kind,
            was_settled: self.phase == Phase::Settled,
            load: sums.mean_load(),
            time: sums.mean_time(),
            misses: sums.miss_rate(),
            deviation: self.trial.time_deviation(),
        });
        self.target = target;
        self.trial = Trial::default();
        self.aftermath = Trial::default();
        self.overload.clear();
        self.changes += 1;
        self.reverts += u64::from(kind == ChangeKind::Restore);
    }
}

fn sums(pod: &PodSecond) -> Sums {
    // Without ends of requests the time follows from Little's law.
    let (completions, time, misses) =
        pod.app.map_or((pod.arrivals, pod.concurrency, 0.0), |app| (app.completions, app.seconds, app.bad()));
    Sums { seconds: 1.0, load: pod.concurrency, completions, time, misses }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod revert_laws;
#[cfg(test)]
mod tests;
