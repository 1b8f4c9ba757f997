//! The ring of [`TimedBuckets`], averaged with weights that fall exponentially with age.
//!
//! The length of the window sets the rate: its buckets together hold 99.99 % of the weight, but the
//! smoothing coefficient is at least 0.2. What surprises: the weights are not normalised, so the
//! first sample of a young window counts only in part, and the average decays while no data arrive.

use std::time::Duration;

use super::timed::TimedBuckets;

/// Share of the weight that lies outside the window.
const WEIGHT_OUTSIDE: f64 = 0.0001;
/// Lower bound of the smoothing coefficient; reached at 42 buckets.
const MIN_SMOOTHING: f64 = 0.2;

/// Exponentially weighted window.
#[derive(Clone, Debug)]
pub struct WeightedBuckets {
    ring: TimedBuckets,
    /// Weight of the newest bucket; each older one weighs `1 - smoothing` of the next.
    smoothing: f64,
}

// === impl WeightedBuckets ===

impl WeightedBuckets {
    /// An empty window of this length and bucket size.
    pub fn new(window: Duration, granularity: Duration) -> Self {
        let ring = TimedBuckets::new(window, granularity);
        let smoothing = smoothing(ring.len());
        Self { ring, smoothing }
    }

    /// Adds `value` to the bucket of `now`. Dropped if that bucket has left the window, or if the
    /// value is not finite or exceeds ±[`MAX_VALUE`](super::MAX_VALUE).
    pub fn record(&mut self, now: Duration, value: f64) {
        self.ring.record(now, value);
    }

    /// Whether the last write is older than the window.
    pub fn is_empty(&self, now: Duration) -> bool {
        self.ring.is_empty(now)
    }

    /// The weighted average, neither normalised nor rounded.
    pub fn average(&self, now: Duration) -> f64 {
        if self.is_empty(now) {
            return 0.0;
        }
        let decay = 1.0 - self.smoothing;
        let silent = self.ring.steps_since_last(now);
        let mut weight = self.smoothing * decay.powf(silent as f64);
        let visible = usize::try_from(self.ring.len() - silent).unwrap_or(0);
        self.ring.newest_first().take(visible).fold(0.0, |sum, value| {
            let sum = sum + value * weight;
            weight *= decay;
            sum
        })
    }

    /// Changes the length and the weights.
    pub fn resize(&mut self, window: Duration, now: Duration) {
        self.ring.resize(window, now);
        self.smoothing = smoothing(self.ring.len());
    }
}

fn smoothing(buckets: i64) -> f64 {
    (1.0 - WEIGHT_OUTSIDE.powf(1.0 / buckets as f64)).max(MIN_SMOOTHING)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_600_000_000);

    fn at(seconds: u64) -> Duration {
        START + Duration::from_secs(seconds)
    }

    fn window(seconds: u64) -> WeightedBuckets {
        WeightedBuckets::new(Duration::from_secs(seconds), Duration::from_secs(1))
    }

    fn close(left: f64, right: f64, tolerance: f64) -> bool {
        (left - right).abs() <= tolerance
    }

    /// Knative bucketing_test.go for 6, 40 and 60 buckets; the others by its formula.
    #[test]
    fn smoothing_depends_on_length() {
        for (buckets, expected) in [
            (3, 0.95358),  // W1
            (5, 0.84151),  // W2
            (6, 0.78456),  // W3
            (10, 0.60189), // W4
            (12, 0.53584), // W5
            (30, 0.26436), // W6
            (40, 0.20567), // W7
            (41, 0.20120), // W8
            (42, 0.2),     // W9
            (60, 0.2),     // W10
            (3600, 0.2),
        ] {
            assert!(close(smoothing(buckets), expected, 5e-6), "{buckets}: {}", smoothing(buckets));
        }
    }

    /// Knative bucketing_test.go, TestWeightedFloat64Buckets.
    #[test]
    fn newer_seconds_weigh_more_and_average_decays_without_data() {
        let mut window = window(5);
        window.record(at(0), 2.0);
        assert!(close(window.average(at(0)), 1.683_021, 1e-6)); // W11
        assert!(close(window.average(at(1)), 0.266_741, 1e-6)); // W12
        window.record(at(1), 2.0);
        assert!(close(window.average(at(1)), 1.949_762, 1e-6)); // W13
        for i in 0..5u32 {
            window.record(at(u64::from(2 + i)), f64::from(2 + i));
        }
        assert!(close(window.average(at(6)), 5.811_580, 1e-6)); // W14
        assert_eq!(window.average(at(16)), 0.0); // W15
    }

    /// The example of "Dive into Knative Pod Autoscaler" (Zeng Xu, 2025).
    #[test]
    fn shorter_window_gives_newest_second_more_weight() {
        let average = |seconds| {
            let mut window = window(seconds);
            for (second, concurrency) in (1..).zip([1.0, 3.0, 5.0, 4.0, 6.0, 7.0, 2.0, 8.0, 10.0, 20.0]) {
                window.record(at(second), concurrency);
            }
            window.average(at(10))
        };
        assert_eq!(average(10), 15.430_728_028_666_296);
        // One unit in the last place off: pow() differs between libraries.
        assert!(close(average(3), 19.530_732_247_258_655, 4e-15));
    }

    #[test]
    fn resize_changes_the_weights() {
        let mut window = window(5);
        window.record(at(0), 1.0);
        window.resize(Duration::from_secs(6), at(0));
        assert!(close(window.average(at(0)), 0.784_56, 5e-6));
    }
}
