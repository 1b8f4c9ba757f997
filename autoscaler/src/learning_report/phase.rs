//! Phase: what learning does at present, as conditions, metrics and users' texts name it.
//!
//! The learner sets it; it is part of the report.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What learning does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// There is not enough evidence yet.
    Observing,
    /// Steps towards the optimum.
    Exploring,
    /// At the optimum. Only lasting evidence changes the target.
    Settled,
    /// The evidence does not allow any change.
    Frozen(FreezeReason),
    /// Back towards the user's target, because the learned one was worse. Until the next epoch,
    /// another service time that lasts, or an overload.
    Reverted,
}

/// Why a target is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FreezeReason {
    /// Seconds without any data.
    Gap,
    /// The clock was set.
    ClockJump,
    /// Too many sidecars do not report the ends of requests.
    OldSidecars,
    /// Too many requests fail, and there is no objective that they miss.
    FailedRequests,
    /// The throughput at the same load changed: a slow dependency, or another mix of requests.
    ServiceTimeChanged,
    /// Less load on a pod does not make its responses faster.
    NotConcurrency,
}

// === impl Phase ===

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observing => f.write_str("Observing"),
            Self::Exploring => f.write_str("Exploring"),
            Self::Settled => f.write_str("Settled"),
            Self::Frozen(reason) => write!(f, "Frozen({reason:?})"),
            Self::Reverted => f.write_str("Reverted"),
        }
    }
}
