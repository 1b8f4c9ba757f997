//! A ring of buckets of one second each, and their plain average.
//!
//! [`WeightedBuckets`](super::WeightedBuckets) uses the same ring with another average.
//!
//! ```text
//!            first          last        now
//!   ┌───┬─────┬───┬───┬───┬──┬───┬───┬───┐
//!   │   │  3  │ 0 │ 5 │ 1 │ 4│   │   │   │  average(last) = total / (last - first + 1), at most n
//!   └───┴─────┴───┴───┴───┴──┴───┴───┴───┘  average(now) = without buckets that expire until now
//! ```
//!
//! A young window divides by its age, so it has no ramp-up lag. What surprises: after a value with
//! a time far in the future, all others are dropped until that time. So callers check the time of
//! each stat. No value can make the total infinite.

use std::time::Duration;

/// Largest value that a window accepts, positive or negative. The sum of a full window of such
/// values is finite. An infinite total would never become finite again, because infinity minus
/// itself is not a number.
pub const MAX_VALUE: f64 = 1e100;
/// Most buckets in a ring: a day of seconds. Settings allow an hour, a replay a day; longer windows
/// are cut.
const MAX_BUCKETS: i64 = 86_400;
/// Longest bucket, in seconds.
const MAX_GRANULARITY: i64 = 3600;

/// Ring of buckets with a running total.
#[derive(Clone, Debug)]
pub struct TimedBuckets {
    buckets: Vec<f64>,
    /// Whole seconds in a bucket, at least 1.
    granularity: i64,
    /// Configured length in seconds; need not be a multiple of the granularity.
    window: i64,
    /// Start of the first bucket written, in Unix seconds. Earlier buckets have no data, which is
    /// not zero.
    first: Option<i64>,
    /// Start of the newest bucket written.
    last: Option<i64>,
    /// Sum of the buckets, kept by adding and subtracting in the order of events.
    total: f64,
}

// === impl TimedBuckets ===

impl TimedBuckets {
    /// An empty ring of `window`, rounded up to whole buckets: from one to 86400 of them.
    pub fn new(window: Duration, granularity: Duration) -> Self {
        let granularity = whole_seconds(granularity).clamp(1, MAX_GRANULARITY);
        let window = window_seconds(window, granularity);
        Self {
            buckets: vec![0.0; bucket_count(window, granularity)],
            granularity,
            window,
            first: None,
            last: None,
            total: 0.0,
        }
    }

    /// Adds `value` to the bucket of `now`. Dropped if that bucket has left the window, or if the
    /// value is not finite or exceeds ±[`MAX_VALUE`].
    pub fn record(&mut self, now: Duration, value: f64) {
        // Also false for NaN.
        let fits = value.abs() <= MAX_VALUE;
        let bucket = self.truncate(now);
        if !fits || (self.last != Some(bucket) && !self.move_to(bucket)) {
            return;
        }
        self.add(bucket, value);
        self.total += value;
    }

    /// Whether the last write is older than the window. A write exactly one window ago is not.
    pub fn is_empty(&self, now: Duration) -> bool {
        self.last.is_none_or(|last| self.truncate(now) - last > self.window)
    }

    /// The plain average, rounded to six decimals.
    pub fn average(&self, now: Duration) -> f64 {
        let Some(last) = self.last else { return 0.0 };
        let now = self.truncate(now);
        let gap = now - last;
        if gap >= self.window {
            return 0.0;
        }
        // `first` is `None` after a resize of an empty window: then the whole window counts.
        let written = self.first.map_or(i64::MAX, |first| self.steps(last - first) + 1);
        let n = self.len();
        if gap <= 0 {
            return round_to_six(self.total / written.min(n) as f64);
        }
        let live = self.buckets_after(last, now).fold(self.total, |total, value| total - value);
        round_to_six(live / written.min(n - self.steps(gap)) as f64)
    }

    /// Changes the length and keeps the newest buckets that fit.
    ///
    /// The old window counts as full, so a longer window averages over the old length at first.
    pub fn resize(&mut self, window: Duration, now: Duration) {
        if window_seconds(window, self.granularity) == self.window {
            return;
        }
        let mut resized = Self { last: self.last, ..Self::new(window, seconds(self.granularity)) };
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
        // A Vec has at most isize::MAX elements.
        self.buckets.len() as i64
    }

    /// Buckets from newest to oldest.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = f64> {
        let newest = self.last.map_or(0, |last| self.index(last));
        // The index is below the length, so the split is in bounds.
        let (round, round_before) = self.buckets.split_at(newest + 1);
        round.iter().rev().chain(round_before.iter().rev()).copied()
    }

    /// Whole buckets between the last write and `now`; 0 if `now` is earlier.
    pub(super) fn steps_since_last(&self, now: Duration) -> i64 {
        self.last.map_or(0, |last| self.steps((self.truncate(now) - last).max(0)))
    }

    /// Makes `bucket` writable and expires the buckets that leave the window. False if `bucket`
    /// itself is too old.
    fn move_to(&mut self, bucket: i64) -> bool {
        let Some(last) = self.last else {
            self.restart(bucket);
            return true;
        };
        if last - bucket >= self.window {
            return false;
        }
        self.first = Some(self.first.map_or(bucket, |first| first.min(bucket)));
        if bucket - last >= self.window {
            self.restart(bucket);
        } else {
            self.expire(last, bucket);
            self.last = Some(last.max(bucket));
        }
        true
    }

    fn restart(&mut self, bucket: i64) {
        self.buckets.fill(0.0);
        self.total = 0.0;
        self.first = Some(bucket);
        self.last = Some(bucket);
    }

    /// Subtracts the buckets in (last, bucket] from the total: they hold expired values of the
    /// previous round.
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

fn window_seconds(window: Duration, granularity: i64) -> i64 {
    whole_seconds(window).clamp(1, MAX_BUCKETS * granularity)
}

fn bucket_count(window: i64, granularity: i64) -> usize {
    // At most MAX_BUCKETS.
    window.unsigned_abs().div_ceil(granularity.unsigned_abs()) as usize
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
mod tests;
