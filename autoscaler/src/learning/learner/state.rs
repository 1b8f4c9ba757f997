//! LearnerState: the part of a learner that outlives a restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::learning::bounds::LearningSpec;
use crate::learning::bracket::Bracket;
use crate::learning::curve::LoadCurve;

/// Relative difference of two numbers of which one was a JSON text.
const SAME: f64 = 1e-9;

/// The part of the state that outlives a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnerState {
    pub(super) epoch: u64,
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
}

/// The objective by which the bracket and the misses of the curve were measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasuredObjective {
    budget: Option<f64>,
    threshold: Option<Duration>,
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

    /// Whether its target may be one for these settings. That of a version without the objective may.
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
