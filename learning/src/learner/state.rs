//! LearnerState: the part of a learner that outlives a restart or a change of leader.
//!
//! Not part of it are the trial, because its seconds end with the process, and what is observed
//! again within ten minutes: faults of the feed, failures, a changed service time.

mod basis;

use std::time::Duration;

use autoscaler::learning_report::Phase;
pub use basis::{CurvePoint, MemoryRoom, TargetBasis, TargetBound};
use serde::{Deserialize, Serialize};

use super::Learner;
use super::change::Change;
use super::readings::cpu_line::CpuLine;
use super::readings::memory_line::MemoryLine;
use super::suspicion::Suspicion;
use super::temporary_limit::TemporaryLimit;
use crate::bounds::LearningSpec;
use crate::bracket::Bracket;
use crate::curve::LoadCurve;
use crate::shadow::Costs;
use crate::tuning;

/// Relative difference of two numbers of which one was a JSON text.
const SAME: f64 = 1e-9;

/// The part of the state that outlives a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnerState {
    epoch: u64,
    pub(super) target: f64,
    pub(super) user_target: f64,
    /// `None` in the states of earlier versions.
    #[serde(default)]
    pub(super) objective: Option<MeasuredObjective>,
    pub(super) memory_cap: Option<f64>,
    pub(super) settled: bool,
    pub(super) reverted: bool,
    pub(super) bracket: Bracket,
    pub(super) curve: LoadCurve,
    pub(super) saved_at: Duration,
    #[serde(default)]
    guessed_at: Option<f64>,
    #[serde(default)]
    limit: Option<TemporaryLimit>,
    #[serde(default)]
    memory: MemoryLine,
    #[serde(default)]
    cpu: CpuLine,
    #[serde(default)]
    last_change: Option<Change>,
    #[serde(default)]
    rests: Rests,
    #[serde(default)]
    costs: Costs,
    #[serde(default)]
    suspicion: Option<Suspicion>,
}

/// Until when no change is allowed, in Unix time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rests {
    frozen_until: Duration,
    raise_after: Duration,
    /// Seconds of the next rest.
    pause: u64,
}

/// The objective by which the bracket and the misses of the curve were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredObjective {
    budget: Option<f64>,
    threshold: Option<Duration>,
}

// === impl Learner ===

impl Learner {
    /// A learner with a stored state. It keeps the target, and measures it anew. A state of another
    /// epoch, of another user's target or objective, or that is damaged or old is not used. Of a
    /// state without any objective the results are not used.
    pub fn restore(spec: LearningSpec, epoch: u64, state: LearnerState, now: Duration) -> Self {
        let mut learner = Self::new(spec, epoch);
        let age = now.saturating_sub(state.saved_at);
        let same = state.epoch == epoch && state.has_target_of(&spec);
        let valid = state.curve.is_valid() && state.bracket.is_valid() && state.target.is_finite();
        if same && age <= tuning::evidence::STORED_FOR && valid {
            learner.target = spec.clamp(state.target);
            learner.memory_cap = state.memory_cap;
            learner.guessed_at = state.guessed_at;
            learner.limit = state.limit.map(|limit| limit.restored(now));
            if state.memory.is_valid() {
                learner.memory = state.memory;
            }
            if state.cpu.is_valid() {
                learner.cpu = state.cpu;
            }
            if state.reverted {
                learner.phase = Phase::Reverted;
            }
            if state.objective.is_some() {
                learner.restore_results(state, now);
            }
        }
        learner
    }

    fn restore_results(&mut self, state: LearnerState, now: Duration) {
        self.bracket = state.bracket;
        self.curve = state.curve;
        self.shadow.restore(state.costs, now);
        self.restore_rests(state.rests, now);
        self.suspicion = state.suspicion.filter(|suspicion| suspicion.is_valid(now));
        // A time in the future is from another clock. A target that other bounds moved is another
        // one than the stored change led to.
        let led_here = |change: &Change| change.at <= now && self.target == state.target;
        self.last_change = state.last_change.filter(|change| change.is_valid() && led_here(change));
        if state.settled && !state.reverted {
            self.phase = Phase::Settled;
        }
    }

    /// Restores the rests, which end as soon as those that begin now, whatever the stored clock
    /// was.
    fn restore_rests(&mut self, rests: Rests, now: Duration) {
        let latest = now.saturating_add(Duration::from_secs(tuning::steps::LONGEST_PAUSE));
        self.frozen_until = rests.frozen_until.min(latest);
        self.raise_after = rests.raise_after.min(latest);
        self.pause = rests.pause.clamp(tuning::steps::FIRST_PAUSE, tuning::steps::LONGEST_PAUSE);
    }

    /// The state to store for a restart.
    pub fn state(&self, now: Duration) -> LearnerState {
        LearnerState {
            epoch: self.epoch,
            target: self.target,
            user_target: self.spec.user_target,
            objective: Some(MeasuredObjective::of(&self.spec)),
            memory_cap: self.memory_cap,
            settled: self.phase == Phase::Settled,
            reverted: self.phase == Phase::Reverted,
            bracket: self.bracket,
            curve: self.curve.clone(),
            saved_at: now,
            guessed_at: self.guessed_at,
            limit: self.limit,
            memory: self.memory,
            cpu: self.cpu,
            last_change: self.last_change,
            rests: Rests {
                frozen_until: self.frozen_until,
                raise_after: self.raise_after,
                pause: self.pause,
            },
            costs: self.shadow.costs(),
            suspicion: self.suspicion,
        }
    }
}

// === impl LearnerState ===

impl LearnerState {
    /// The pod template to which the evidence belongs.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// When it was stored, in Unix time.
    pub fn saved_at(&self) -> Duration {
        self.saved_at
    }

    /// Whether its target may be one for these settings. That of a version without the objective
    /// may.
    pub(super) fn has_target_of(&self, spec: &LearningSpec) -> bool {
        let objective = MeasuredObjective::of(spec);
        is_same(self.user_target, spec.user_target)
            && self.objective.is_none_or(|measured| measured.is_like(objective))
    }
}

// === impl MeasuredObjective ===

impl MeasuredObjective {
    pub(super) fn of(spec: &LearningSpec) -> Self {
        Self { budget: spec.objective.map(|budget| budget.0), threshold: spec.threshold }
    }

    fn is_like(self, other: Self) -> bool {
        let same_budget = match (self.budget, other.budget) {
            (Some(budget), Some(other)) => is_same(budget, other),
            (budget, other) => budget == other,
        };
        same_budget && self.threshold == other.threshold
    }
}

fn is_same(stored: f64, present: f64) -> bool {
    (stored / present - 1.0).abs() < SAME
}
