//! LearnedTarget: the result of a learner, with its evidence.

use std::fmt;

use autoscaler::learning_report::Phase;

/// A target with its evidence.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnedTarget {
    /// Concurrent requests that one pod should carry.
    pub target: f64,
    /// Factor on the target for the decider, at least 1: in the first seconds of an overload the
    /// concurrency is mostly backlog, which needs no pods of its own.
    pub backlog: f64,
    /// Requests that a pod may have at a time, for some minutes after a kill for its memory.
    pub temporary_limit: Option<u32>,
    /// What learning does at present.
    pub phase: Phase,
    /// Whether the first target, which is no number of the user, stays because requests take
    /// longer than a trial.
    pub long_requests: bool,
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
