//! Failures: whether so many requests fail that times and loads show nothing.
//!
//! An app that sheds load answers fast, and the requests that it refuses take no place in the pod.
//! So both the time in the app and the load look better the more it refuses. With an objective a
//! failed request is a miss. Without one, nothing else shows that a target is too high.

use crate::curve::Sums;
use crate::tuning;

/// Requests of the last minute; older ones weigh less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Failures {
    requests: f64,
    failed: f64,
}

// === impl Failures ===

impl Failures {
    /// Adds one second of all pods, measured without an objective: its misses are failures alone.
    pub(super) fn add(&mut self, second: &Sums) {
        self.requests = self.requests * tuning::evidence::FAILURE_FADING + second.completions;
        self.failed = self.failed * tuning::evidence::FAILURE_FADING + second.misses;
    }

    /// Whether too many requests failed.
    pub(super) fn are_many(&self) -> bool {
        self.requests >= tuning::evidence::FAILURE_REQUESTS
            && self.failed > tuning::evidence::MOST_FAILED * self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(completions: f64, misses: f64) -> Sums {
        Sums { completions, misses, ..Sums::default() }
    }

    #[test]
    fn more_than_two_percent_of_many_requests_are_many_failures() {
        let after = |completions, misses| {
            let mut failures = Failures::default();
            for _ in 0..60 {
                failures.add(&second(completions, misses));
            }
            failures.are_many()
        };
        assert!(after(100.0, 2.1) && !after(100.0, 1.9));
        assert!(!after(1.0, 1.0), "too few requests");
    }

    #[test]
    fn failures_fade_with_the_requests_after_them() {
        let mut failures = Failures::default();
        for _ in 0..600 {
            failures.add(&second(100.0, 100.0));
        }
        let good = (0..600).take_while(|_| {
            failures.add(&second(100.0, 0.0));
            failures.are_many()
        });
        assert!((100..130).contains(&good.count()));
    }
}
