//! Settings of learning, and the bounds of every target.

use std::ops::RangeInclusive;

/// A learned target is at least the user's divided by this, and at most the user's times this.
const FACTOR: f64 = 4.0;
/// Smallest target.
const LEAST: f64 = 0.01;
/// Largest target.
const MOST: f64 = 1e6;

/// Settings of one workload's learning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearningSpec {
    /// The user's target.
    pub user_target: f64,
    /// The load that the container concurrency allows at its utilization; `None` without a limit.
    pub limit: Option<f64>,
    /// The objective; without one the target is at the knee of the load curve.
    pub objective: Option<MissBudget>,
}

/// Share of requests that may miss the latency objective, above 0 and below 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissBudget(pub f64);

// === impl LearningSpec ===

impl LearningSpec {
    /// The bounds of the target. Both are finite and above 0, whatever the settings are.
    pub fn bounds(&self) -> RangeInclusive<f64> {
        let user = self.user();
        let limit = self.limit.filter(|limit| *limit > 0.0).unwrap_or(MOST).clamp(LEAST, MOST);
        let most = (user * FACTOR).min(limit);
        (user / FACTOR).min(most)..=most
    }

    /// `target` within the bounds.
    pub fn clamp(&self, target: f64) -> f64 {
        let bounds = self.bounds();
        if target.is_nan() { self.start() } else { target.clamp(*bounds.start(), *bounds.end()) }
    }

    /// The target before any evidence: the user's, within the bounds.
    pub fn start(&self) -> f64 {
        let bounds = self.bounds();
        self.user().clamp(*bounds.start(), *bounds.end())
    }

    fn user(&self) -> f64 {
        let user = if self.user_target.is_nan() { 1.0 } else { self.user_target };
        user.clamp(LEAST * FACTOR, MOST / FACTOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_a_quarter_to_four_times_within_the_limit() {
        let bounds = |limit| LearningSpec { user_target: 20.0, limit, objective: None }.bounds();
        assert_eq!(bounds(None), 5.0..=80.0);
        assert_eq!(bounds(Some(7.0)), 5.0..=7.0);
        assert_eq!(bounds(Some(3.0)), 3.0..=3.0);
    }
}
