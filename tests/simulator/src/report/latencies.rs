//! Latency histogram with a relative error below 1 %.

use std::collections::BTreeMap;
use std::time::Duration;

/// Leading bits of the microseconds that a bucket keeps.
const BITS: u32 = 7;

/// A distribution of durations. The number of buckets is bounded: a few thousand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    counts: BTreeMap<u64, u64>,
    total: u64,
    longest: Duration,
}

// === impl Latencies ===

impl Latencies {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let cut = (u64::BITS - micros.leading_zeros()).saturating_sub(BITS);
        *self.counts.entry(micros >> cut << cut).or_default() += 1;
        self.total += 1;
        self.longest = self.longest.max(latency);
    }

    /// The latency at this quantile, from 0 to 1, within 1 %. Zero if the histogram is empty.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        bucket.map_or(Duration::ZERO, |(micros, _)| Duration::from_micros(*micros))
    }

    /// As [`quantile`](Self::quantile), with this number of requests in addition that are slower
    /// than all others. `None` if the quantile is such a request.
    pub fn quantile_with_failed(&self, share: f64, failed: u64) -> Option<Duration> {
        let rank = ((self.total + failed) as f64 * share).ceil();
        let answered = self.total as f64;
        if answered == 0.0 && failed == 0 {
            return Some(Duration::ZERO);
        }
        (rank <= answered).then(|| self.quantile(rank / answered))
    }

    /// The latencies that were recorded since `earlier`, an older state of this histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |micros| earlier.counts.get(micros).copied().unwrap_or(0);
        let counts = self.counts.iter().map(|(micros, count)| (*micros, count - before(micros)));
        Self { counts: counts.collect(), total: self.total - earlier.total, longest: self.longest }
    }

    pub fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_one_percent() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.quantile(0.5), Duration::ZERO);
        for millis in 1..=1000 {
            latencies.record(Duration::from_millis(millis));
        }
        for (share, millis) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let got = latencies.quantile(share).as_secs_f64() * 1000.0;
            assert!((got / millis - 1.0).abs() < 0.01, "{share}: {got} ms instead of {millis}");
        }
        assert_eq!(latencies.longest(), Duration::from_secs(1));
    }
}
