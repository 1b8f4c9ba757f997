//! Phase of learning, and the learned target with its evidence.

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
    /// The user's target is in force until the next epoch, because the learned one was worse.
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

/// A target with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedTarget {
    /// Concurrent requests that one pod should carry.
    pub target: f64,
    /// What learning does at present.
    pub phase: Phase,
    /// From 0 (none) to 1: how much the evidence supports the target.
    pub confidence: f64,
    /// Changes of the target in this process.
    pub changes: u64,
    /// Those of them that restored an earlier target.
    pub reverts: u64,
    /// Mean load of a pod in the seconds that count for the target.
    pub load: f64,
    /// Mean seconds of a request in the app in these seconds; 0 without any.
    pub time: f64,
    /// Share of requests that missed the objective in these seconds.
    pub misses: f64,
    /// Requests in these seconds.
    pub requests: f64,
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

// === impl LearnedTarget ===

impl fmt::Display for LearnedTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, phase, load, time, misses, requests, .. } = self;
        write!(
            f,
            "target {target:.2}, {phase}: {requests:.0} requests at {load:.2} a pod took {:.0} ms, {:.2} % missed the objective",
            time * 1000.0,
            misses * 100.0
        )
    }
}
