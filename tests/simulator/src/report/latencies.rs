//! Latencies: how long requests took, as a histogram with an error below 1 %.

use std::collections::BTreeMap;
use std::time::Duration;

/// Leading bits of a number of microseconds that are kept.
const BITS: u32 = 7;

/// A distribution of durations. Its size is bounded by the number of buckets: a few thousand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    counts: BTreeMap<u64, u64>,
    total: u64,
    longest: Duration,
}

// === impl Latencies ===

impl Latencies {
    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let cut = (u64::BITS - micros.leading_zeros()).saturating_sub(BITS);
        *self.counts.entry(micros >> cut << cut).or_default() += 1;
        self.total += 1;
        self.longest = self.longest.max(latency);
    }

    /// The latency that this share of all, from 0 to 1, does not exceed by more than 1 %. Zero if there were none.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (self.total as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.counts.iter().find(|(_, count)| {
            seen += **count;
            seen >= rank
        });
        bucket.map_or(Duration::ZERO, |(micros, _)| Duration::from_micros(*micros))
    }

    /// The longest.
    pub fn longest(&self) -> Duration {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_percent() {
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
