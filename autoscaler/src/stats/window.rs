//! Sliding windows: the average or the maximum of the values of the last seconds.
//!
//! Input: one value per second and source from a
//! [`Collection`](crate::stats::collection::Collection), which reads the averages for every
//! decision and every metrics query. The [`Decider`](crate::scaling::decider::Decider) holds a
//! [`MaxWindow`] for its scale-down delay.
//!
//! Time is Unix time as a `Duration`. It may be late or early, because pods use their own clocks.
//! What surprises: time before the first and after the last write counts as missing data, but a gap
//! between writes counts as zeros. So a workload without requests has to report zeros.
//!
//! The arithmetic follows Knative's `pkg/autoscaler/aggregation` to the last bit, running total
//! included: a fresh sum sometimes differs in the sixth decimal, which can change a decision.

mod max;
mod timed;
mod weighted;

use std::time::Duration;

pub use max::MaxWindow;
pub use timed::{MAX_VALUE, TimedBuckets};
pub use weighted::WeightedBuckets;

use crate::settings::Aggregation;

/// An averaging window.
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

    /// Adds `value` to the bucket of `now`. Dropped if that bucket has left the window, or if the
    /// value is not finite or exceeds ±[`MAX_VALUE`].
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

    /// The average at `now`. Also zero for an empty window, so check [`is_empty`](Self::is_empty)
    /// first.
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
