//! TimedBuckets: a ring of one bucket a second, and their plain average.
//!
//! Also the ring under [`WeightedBuckets`](super::WeightedBuckets), which only averages differently.
//!
//! ```text
//!            first          last        now
//!   ┌───┬─────┬───┬───┬───┬──┬───┬───┬───┐
//!   │   │  3  │ 0 │ 5 │ 1 │ 4│   │   │   │      average(last) = total / (last - first + 1), at most n buckets
//!   └───┴─────┴───┴───┴───┴──┴───┴───┴───┘      average(now)  = less the buckets that the silence since is about to expire
//! ```
//!
//! A young window divides by what it has seen, so there is no ramp-up lag.

use std::time::Duration;

/// Ring of buckets with a running total.
#[derive(Clone, Debug)]
pub struct TimedBuckets {
    buckets: Vec<f64>,
    /// Whole seconds in a bucket, at least 1.
    granularity: i64,
    /// Length as it was asked for, in seconds; need not be a multiple of the granularity.
    window: i64,
    /// Start of the first bucket written, in Unix seconds; what was before is not zero but unknown.
    first: Option<i64>,
    /// Start of the newest bucket written.
    last: Option<i64>,
    /// Sum of the buckets, kept by adding and subtracting in the order of events.
    total: f64,
}

// === impl TimedBuckets ===

impl TimedBuckets {
    /// An empty ring of `window` (rounded up to whole buckets; at least one).
    pub fn new(window: Duration, granularity: Duration) -> Self {
        let granularity = whole_seconds(granularity).max(1);
        let window = whole_seconds(window).max(1);
        Self {
            buckets: vec![0.0; bucket_count(window, granularity)],
            granularity,
            window,
            first: None,
            last: None,
            total: 0.0,
        }
    }

    /// Adds `value` to the bucket of `now`; dropped if that bucket has left the window.
    pub fn record(&mut self, now: Duration, value: f64) {
        let bucket = self.truncate(now);
        if self.last != Some(bucket) && !self.move_to(bucket) {
            return;
        }
        self.add(bucket, value);
        self.total += value;
    }

    /// Whether nothing was recorded for longer than the window. Exactly its length ago is not longer.
    pub fn is_empty(&self, now: Duration) -> bool {
        self.last.is_none_or(|last| self.truncate(now) - last > self.window)
    }

    /// The plain average, rounded to six decimals.
    pub fn average(&self, now: Duration) -> f64 {
        let Some(last) = self.last else { return 0.0 };
        let now = self.truncate(now);
        let silence = now - last;
        if silence >= self.window {
            return 0.0;
        }
        // A window resized while it was empty does not know its start any more: then all of it counts.
        let written = self.first.map_or(i64::MAX, |first| self.steps(last - first) + 1);
        let n = self.len();
        if silence <= 0 {
            return round_to_six(self.total / written.min(n) as f64);
        }
        let live = self.buckets_after(last, now).fold(self.total, |total, value| total - value);
        round_to_six(live / written.min(n - self.steps(silence)) as f64)
    }

    /// Changes the length and keeps the newest buckets that still fit.
    ///
    /// The kept data count as if the old window had been full, so a grown window averages over the old length first.
    pub fn resize(&mut self, window: Duration, now: Duration) {
        let window = whole_seconds(window).max(1);
        if window == self.window {
            return;
        }
        let mut resized = Self { last: self.last, ..Self::new(seconds(window), seconds(self.granularity)) };
        if let Some(last) = self.last.filter(|_| !self.is_empty(now)) {
            for age in 0..self.len().min(resized.len()) {
                let bucket = last - age * self.granularity;
                let value = self.value(bucket);
                resized.add(bucket, value);
                resized.total += value;
            }
            resized.first = Some(last - (self.len() - 1) * self.granularity);
        }
        *self = resized;
    }

    /// Number of buckets.
    pub(super) fn len(&self) -> i64 {
        // A Vec never has more than isize::MAX elements.
        self.buckets.len() as i64
    }

    /// Buckets from newest to oldest.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = f64> {
        let last = self.last.unwrap_or_default();
        (0..self.len()).map(move |age| self.value(last - age * self.granularity))
    }

    /// Whole buckets between the last write and `now`; none if `now` is earlier.
    pub(super) fn silent_steps(&self, now: Duration) -> i64 {
        self.last.map_or(0, |last| self.steps((self.truncate(now) - last).max(0)))
    }

    /// Makes `bucket` writable: drops what it pushes out of the window. False if it is too old itself.
    fn move_to(&mut self, bucket: i64) -> bool {
        let Some(last) = self.last else {
            self.restart(bucket);
            return true;
        };
        if bucket + self.window <= last {
            return false;
        }
        if self.first.is_none_or(|first| first > bucket) {
            self.first = Some(bucket);
        }
        if bucket - last >= self.window {
            self.restart(bucket);
        } else if bucket > last {
            self.expire(last, bucket);
            self.last = Some(bucket);
        }
        true
    }

    fn restart(&mut self, bucket: i64) {
        self.buckets.fill(0.0);
        self.total = 0.0;
        self.first = Some(bucket);
        self.last = Some(bucket);
    }

    /// Takes the buckets in (last, bucket] off the total: they hold values of the round before.
    fn expire(&mut self, last: i64, bucket: i64) {
        for step in 1..=self.steps(bucket - last) {
            let index = self.index(last + step * self.granularity);
            if let Some(slot) = self.buckets.get_mut(index) {
                self.total -= std::mem::take(slot);
            }
        }
    }

    fn buckets_after(&self, last: i64, until: i64) -> impl Iterator<Item = f64> {
        (1..=self.steps(until - last)).map(move |step| self.value(last + step * self.granularity))
    }

    fn value(&self, bucket: i64) -> f64 {
        self.buckets.get(self.index(bucket)).copied().unwrap_or_default()
    }

    fn add(&mut self, bucket: i64, value: f64) {
        let index = self.index(bucket);
        if let Some(slot) = self.buckets.get_mut(index) {
            *slot += value;
        }
    }

    fn index(&self, bucket: i64) -> usize {
        // The remainder is at least 0 and below the length.
        self.steps(bucket).rem_euclid(self.len()) as usize
    }

    fn steps(&self, seconds: i64) -> i64 {
        seconds.div_euclid(self.granularity)
    }

    fn truncate(&self, now: Duration) -> i64 {
        self.steps(whole_seconds(now)) * self.granularity
    }
}

fn bucket_count(window: i64, granularity: i64) -> usize {
    usize::try_from((window + granularity - 1) / granularity).unwrap_or(1)
}

fn whole_seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs())
}

fn round_to_six(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1_600_000_000);

    fn at(seconds: f64) -> Duration {
        START + Duration::from_secs_f64(seconds)
    }

    fn ring(window: u64, granularity: u64) -> TimedBuckets {
        TimedBuckets::new(Duration::from_secs(window), Duration::from_secs(granularity))
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsWindowAverage: one running sequence.
    #[test]
    fn average_follows_writes_silence_and_late_data() {
        let mut window = ring(5, 1);
        window.record(START, 1.0);
        assert_eq!(window.average(START), 1.0);
        for i in 1..5 {
            window.record(at(f64::from(i)), f64::from(i + 1));
        }
        assert_eq!(window.average(at(4.0)), 3.0);
        assert_eq!(window.average(at(3.6)), 3.0, "behind the last write");
        assert_eq!(window.average(at(6.0)), 4.0, "(15 - 1 - 2) / 3 after a short silence");
        assert_eq!(window.average(at(10.0)), 0.0, "after a long one");
        window.record(at(6.0), 91.0);
        assert_eq!(window.average(at(6.0)), 20.6, "the hole counts as zero");

        let t1 = 60.0;
        window.record(at(t1), 1984.0);
        assert_eq!(window.average(at(t1)), 1984.0);
        window.record(at(t1 - 3.0), 4.0);
        assert_eq!(window.average(at(t1)), 497.0, "late data moves the start backwards");

        let t2 = t1 + 1.0;
        for (record_at, value, read_at, expected) in [
            (t2, 5.0, t2, 398.6),
            (t2 - 3.0, 10.0, t2, 400.6),
            (t2 - 6.0, 10.0, t2, 400.6),
            (t2 - 5.0, 10.0, t2, 400.6),
            (t2 + 5.0, 10.0, t2 + 5.0, 10.0),
        ] {
            window.record(at(record_at), value);
            assert_eq!(window.average(at(read_at)), expected, "record {value} at {record_at}");
        }
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsDescendingRecord.
    #[test]
    fn seconds_may_come_in_reverse() {
        let mut window = ring(5, 1);
        for t in (0..=8).rev() {
            window.record(at(f64::from(t)), 5.0);
        }
        assert_eq!(window.average(at(5.0)), 5.0);
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsHoles.
    #[test]
    fn a_hole_inside_the_window_is_zeros() {
        let mut window = ring(5, 1);
        for t in 0..5 {
            window.record(at(f64::from(t)), f64::from(t + 1));
        }
        window.record(at(8.0), 2.0);
        assert_eq!(window.newest_first().sum::<f64>(), 7.0);
        assert_eq!(window.average(at(8.0)), 1.4);
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsSimple.
    #[test]
    fn values_of_one_bucket_add_up() {
        let mut fine = ring(120, 1);
        for (t, value) in [(0.0, 1.0), (0.1, 10.0), (1.0, 1.0), (3.0, 1.0)] {
            fine.record(at(t), value);
        }
        assert_eq!(fine.newest_first().take(4).collect::<Vec<_>>(), [1.0, 0.0, 1.0, 11.0]);

        let mut coarse = ring(120, 5);
        for (t, value) in [(0.0, 1.0), (3.0, 11.0), (6.0, 1.0)] {
            coarse.record(at(t), value);
        }
        assert_eq!(coarse.newest_first().take(2).collect::<Vec<_>>(), [1.0, 12.0]);
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsManyReps.
    #[test]
    fn reporters_of_one_second_add_up_in_any_order_of_seconds() {
        for order in [[0, 1, 2, 3, 4], [0, 3, 2, 1, 4]] {
            let mut window = ring(60, 1);
            for t in order {
                for pod in 0..5 {
                    window.record(at(f64::from(t)), f64::from(pod + t));
                }
            }
            assert_eq!(window.newest_first().sum::<f64>(), 100.0, "{order:?}");
        }
    }

    /// Knative bucketing_test.go, TestTimedFloat64BucketsWindowUpdate.
    #[test]
    fn resizing_keeps_the_newest_and_averages_over_the_old_length_first() {
        let mut window = ring(5, 1);
        for t in 0..6 {
            window.record(at(f64::from(t)), f64::from(t + 1));
        }
        let state = |w: &TimedBuckets, t: f64| (w.newest_first().sum::<f64>(), w.average(at(t)));
        assert_eq!(state(&window, 5.0), (20.0, 4.0));
        window.resize(Duration::from_secs(10), at(5.0));
        assert_eq!(state(&window, 5.0), (20.0, 4.0));
        window.record(at(6.0), 7.0);
        assert_eq!(state(&window, 6.0), (27.0, 4.5));
        window.resize(Duration::from_secs(4), at(6.0));
        assert_eq!(state(&window, 6.0), (22.0, 5.5));
    }

    #[test]
    fn unwritten_and_outlived_windows_are_empty() {
        let mut window = ring(5, 1);
        assert!(window.is_empty(START));
        window.record(START, 0.0);
        assert!(!window.is_empty(at(5.9)), "exactly the window ago is not empty");
        assert!(window.is_empty(at(6.0)));
    }
}
