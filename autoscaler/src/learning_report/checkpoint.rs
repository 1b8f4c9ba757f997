//! Checkpoint: the stored state of a learner, as JSON that only learners read.
//!
//! The metrics-adapter makes it. The decision stream and the status of the PodAutoscaler carry it
//! without a change to any of its digits, and the learner of a new leader continues from it.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// The state of a learner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Checkpoint(Box<RawValue>);

// === impl Checkpoint ===

impl Checkpoint {
    /// The checkpoint of a learner's state; `None` if JSON cannot have that.
    pub fn of(state: &impl Serialize) -> Option<Self> {
        to_raw_value(state).ok().map(Self)
    }

    /// The state as JSON.
    pub fn json(&self) -> &str {
        self.0.get()
    }
}

impl PartialEq for Checkpoint {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}
