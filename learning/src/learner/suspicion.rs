//! Suspicion: a target that was bad for the former pod template.
//!
//! A release discards all evidence, because the new pods may serve more or less. Most releases
//! change neither, and then a raise to a target that was bad is another overload. The suspicion
//! ends with evidence of the new pods, or with the time for which a bad result holds.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::curve::is_usable;
use crate::trial::Trial;
use crate::tuning;

/// A target to which raises are suspected to lead into an overload or a kill.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Suspicion {
    pub(super) target: f64,
    /// Time of the release; `None` before the first result of the new pods, if no second of the
    /// former ones was observed.
    at: Option<Duration>,
    cause: SuspicionCause,
}

/// What the former pods showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum SuspicionCause {
    /// Requests took too long, or there was no room for more load; `None` if the trial before the
    /// release was too short to compare with.
    Slow(Option<FasterPods>),
    /// Pods were killed for their memory.
    Killed,
}

/// What a new pod serves, at the same target, if it is another app.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FasterPods {
    /// Requests a second.
    throughput: f64,
    /// Seconds of a request.
    time: f64,
}

// === impl Suspicion ===

impl Suspicion {
    /// Suspects this target of pods that are released at `at`. `trial` is the last one of the
    /// former pods.
    pub(super) fn of_slow_pods(target: f64, trial: &Trial, at: Option<Duration>) -> Self {
        Self { target, at, cause: SuspicionCause::Slow(FasterPods::than(trial)) }
    }

    /// Suspects every target above the one to which memory kills led.
    pub(super) fn of_kills(target: f64, at: Option<Duration>) -> Self {
        Self { target, at, cause: SuspicionCause::Killed }
    }

    /// Whether the restored numbers are usable. A release in the future is from another clock.
    pub(super) fn is_valid(&self, now: Duration) -> bool {
        let faster = match self.cause {
            SuspicionCause::Slow(Some(FasterPods { throughput, time })) => [throughput, time],
            SuspicionCause::Slow(None) | SuspicionCause::Killed => [0.0; 2],
        };
        let usable = faster.into_iter().chain([self.target]).all(is_usable);
        usable && self.target > 0.0 && self.at.is_none_or(|at| at <= now)
    }

    /// Whether the trial of the new pods shows that it is another app. Memory readings bound the
    /// raises themselves once they are `precise`.
    pub(super) fn is_refuted(&self, trial: &Trial, precise: bool) -> bool {
        match self.cause {
            SuspicionCause::Slow(faster) => faster.is_some_and(|faster| faster.are_those_of(trial)),
            SuspicionCause::Killed => precise,
        }
    }

    /// The suspicion at `now`; `None` once a bad result of the time of the release would not hold
    /// any more.
    pub(super) fn at(self, now: Duration) -> Option<Self> {
        let at = self.at.unwrap_or(now);
        (now.saturating_sub(at) < tuning::bracket::VALIDITY).then_some(Self { at: Some(at), ..self })
    }
}

// === impl FasterPods ===

impl FasterPods {
    /// Pods that are faster than those of this trial. They may have less load, because they are
    /// faster, and then the throughput of the former ones would be lower.
    fn than(trial: &Trial) -> Option<Self> {
        let enough = trial.sums.completions >= tuning::steps::LEAST_REQUESTS;
        let faster = tuning::bracket::FASTER_APP;
        enough.then(|| Self {
            throughput: trial.sums.throughput() * faster.sqrt(),
            time: trial.sums.mean_time() / faster,
        })
    }

    /// Whether the pods of this trial are surely as fast. Neither the throughput nor the time shows
    /// it alone: pods with more load have a higher throughput, with less load a shorter time.
    fn are_those_of(&self, trial: &Trial) -> bool {
        let longest = trial.sums.mean_time() * (1.0 + tuning::evidence::SURE * trial.time_deviation());
        trial.sums.throughput() > self.throughput && longest < self.time
    }
}
