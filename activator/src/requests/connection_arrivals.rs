//! ConnectionArrivals: counts new connections, so that a drain can wait until no more arrive.
//!
//! Listeners count; the drain polls. An activator that stops leaves the EndpointSlices of thousands
//! of Services one by one, and clients connect to it until the last one that they use is written
//! and their node has it. No event reports that, so the drain waits for the effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Polls in one quiet period.
const POLLS: u32 = 10;

/// The connections that have arrived on all leased ports. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct ConnectionArrivals(Arc<AtomicU64>);

// === impl ConnectionArrivals ===

impl ConnectionArrivals {
    /// Counts a connection.
    pub fn record(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Completes when none has arrived for `quiet`, at the latest after `longest`.
    pub async fn wait_for_quiet(&self, quiet: Duration, longest: Duration) {
        let (interval, end) = (quiet / POLLS, Instant::now() + longest);
        let (mut seen, mut since) = (self.count(), Instant::now());
        while since.elapsed() < quiet {
            let now = Instant::now();
            if now >= end {
                tracing::warn!(after = ?longest, "new connections still arrive, ports closed");
                return;
            }
            sleep(interval.min(end - now)).await;
            let count = self.count();
            if count != seen {
                (seen, since) = (count, Instant::now());
            }
        }
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(50);

    /// How long the wait takes if a connection arrives in each `interval` until `last`.
    async fn waited(interval: Duration, last: Duration) -> Duration {
        let (arrivals, began) = (ConnectionArrivals::default(), Instant::now());
        let counted = arrivals.clone();
        tokio::spawn(async move {
            while began.elapsed() + interval <= last {
                sleep(interval).await;
                counted.record();
            }
        });
        arrivals.wait_for_quiet(QUIET, LONGEST).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn wait_ends_a_quiet_period_after_the_last_connection() {
        let second = Duration::from_secs(1);
        for (interval, last, least) in [
            (second, Duration::ZERO, QUIET),
            (second, second * 20, second * 25),
            (second * 4, second * 24, second * 29),
            (second * 7, second * 30, QUIET),
        ] {
            let waited = waited(interval, last).await;
            assert!(waited >= least && waited <= least + second, "{interval:?} {last:?}: {waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_is_bounded_while_connections_arrive() {
        assert_eq!(waited(Duration::from_secs(1), Duration::from_secs(600)).await, LONGEST);
    }

    #[tokio::test(start_paused = true)]
    async fn no_quiet_period_means_no_wait() {
        let began = Instant::now();
        ConnectionArrivals::default().wait_for_quiet(Duration::ZERO, LONGEST).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
