//! LearnerState: the part of a learner that outlives a restart.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::learning::bracket::Bracket;
use crate::learning::curve::LoadCurve;

/// The part of the state that outlives a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearnerState {
    pub(super) epoch: u64,
    pub(super) target: f64,
    pub(super) user_target: f64,
    pub(super) memory_cap: Option<f64>,
    pub(super) settled: bool,
    pub(super) reverted: bool,
    pub(super) bracket: Bracket,
    pub(super) curve: LoadCurve,
    pub(super) saved_at: Duration,
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
}
