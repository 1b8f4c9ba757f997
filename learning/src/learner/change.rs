//! Change: a change of the target, and what was before it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::curve::is_usable;
use crate::tuning;

/// A change of the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Change {
    pub(super) at: Duration,
    pub(super) from: f64,
    pub(super) kind: ChangeKind,
    /// Whether the target was settled.
    pub(super) was_settled: bool,
    /// Load and time of a request before it.
    pub(super) load: f64,
    pub(super) time: f64,
    pub(super) misses: f64,
    /// Relative standard deviation of the time.
    pub(super) deviation: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ChangeKind {
    Raise,
    Lower,
    Restore,
    /// A target at a bound: of the memory of the pods, or of other settings.
    #[serde(rename = "Memory")]
    Bound,
    /// Another pod template, with the same target.
    Release,
}

/// A target that is restored once an overload has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) target: f64,
    /// Time of the breach.
    pub(super) at: Duration,
    /// The last overloaded second.
    pub(super) overloaded_at: Duration,
}

// === impl Change ===

impl Change {
    /// A release, with nothing before it.
    pub(super) fn release(target: f64, at: Duration) -> Self {
        let kind = ChangeKind::Release;
        Self { at, from: target, kind, was_settled: false, load: 0.0, time: 0.0, misses: 0.0, deviation: 0.0 }
    }

    /// Whether the restored numbers are usable.
    pub(super) fn is_valid(&self) -> bool {
        self.from > 0.0
            && [self.from, self.load, self.time, self.misses, self.deviation].into_iter().all(is_usable)
    }

    /// Time until the pods carry their part of the load.
    pub(super) fn settling(&self) -> Duration {
        match self.kind {
            ChangeKind::Raise | ChangeKind::Lower | ChangeKind::Bound => tuning::evidence::SETTLING,
            ChangeKind::Release => tuning::evidence::SETTLING_RELEASE,
            ChangeKind::Restore => tuning::evidence::RECOVERY,
        }
    }
}
