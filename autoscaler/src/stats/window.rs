//! WindowSpec over time: what was recorded in the last so many seconds, as an average or a maximum.
//!
//! Fed by [`Collection`](crate::stats::collection::Collection) with one value a second and reporter; read by it for every decision
//! and every metrics query. The [`Decider`](crate::scaling::decider::Decider) holds a [`MaxWindow`] for its scale-down delay.
//!
//! Time is Unix time as a `Duration`. It may be late or early: reporters stamp their own seconds. What surprises: silence
//! before the first and after the last write is no data, silence between writes is zeros; so "idle" has to be reported.
//!
//! The arithmetic follows Knative's `pkg/autoscaler/aggregation` to the last bit, running total included: a sum taken afresh
//! differs in the sixth decimal now and then, and then in a decision.

mod max;
mod timed;
mod weighted;

use std::time::Duration;

pub use max::MaxWindow;
pub use timed::{MAX_VALUE, TimedBuckets};
pub use weighted::WeightedBuckets;

use crate::settings::Aggregation;

/// An averaging window of either kind.
#[derive(Clone, Debug)]
pub enum Window {
    /// Every second weighs the same.
    Linear(TimedBuckets),
    /// Newer seconds weigh more.
    Weighted(WeightedBuckets),
}

// === impl Window ===

impl Window {
    /// An empty window of this length, in buckets of one second.
    pub fn new(aggregation: Aggregation, length: Duration) -> Self {
        Self::with_granularity(aggregation, length, Duration::from_secs(1))
    }

    /// An empty window of this length, in buckets of this many whole seconds.
    pub fn with_granularity(aggregation: Aggregation, length: Duration, granularity: Duration) -> Self {
        match aggregation {
            Aggregation::Linear => Self::Linear(TimedBuckets::new(length, granularity)),
            Aggregation::WeightedExponential => Self::Weighted(WeightedBuckets::new(length, granularity)),
        }
    }

    /// Adds `value` to the bucket of `now`; dropped if that bucket has left the window, or if it is not a number up to
    /// [`MAX_VALUE`] either way.
    pub fn record(&mut self, now: Duration, value: f64) {
        match self {
            Self::Linear(window) => window.record(now, value),
            Self::Weighted(window) => window.record(now, value),
        }
    }

    /// Whether nothing was recorded for longer than the window.
    pub fn is_empty(&self, now: Duration) -> bool {
        match self {
            Self::Linear(window) => window.is_empty(now),
            Self::Weighted(window) => window.is_empty(now),
        }
    }

    /// The average at `now`. Zero for an empty window too: ask [`is_empty`](Self::is_empty) first.
    pub fn average(&self, now: Duration) -> f64 {
        match self {
            Self::Linear(window) => window.average(now),
            Self::Weighted(window) => window.average(now),
        }
    }

    /// Changes the length and keeps the newest buckets that still fit.
    pub fn resize(&mut self, length: Duration, now: Duration) {
        match self {
            Self::Linear(window) => window.resize(length, now),
            Self::Weighted(window) => window.resize(length, now),
        }
    }
}

#[cfg(test)]
mod laws;
