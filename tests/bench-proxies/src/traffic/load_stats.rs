//! LoadStats: counts and latencies of the requests of a run.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

/// Latencies are recorded in nanoseconds with three digits, from 100 ns to one minute.
const LOWEST: u64 = 100;
const HIGHEST: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// Results of one run, or one thread's share of them.
#[derive(Clone, Debug)]
pub(crate) struct LoadStats {
    start: Instant,
    last_response: Instant,
    /// Requests with status 200.
    pub(crate) answered: u64,
    /// Requests with another status, or without a complete response.
    pub(crate) failed: u64,
    /// Requests that were due and had no response at the end of the run.
    pub(crate) unanswered: u64,
    /// Cause of the last failure.
    pub(crate) last_failure: String,
    /// Latencies of answered requests, and of unanswered ones up to the end of the run.
    pub(crate) latencies: Histogram<u64>,
}

// === impl LoadStats ===

impl LoadStats {
    pub(super) fn new(start: Instant) -> Result<Self> {
        Ok(Self {
            start,
            last_response: start,
            answered: 0,
            failed: 0,
            unanswered: 0,
            last_failure: String::new(),
            latencies: Histogram::new_with_bounds(LOWEST, HIGHEST, DIGITS)?,
        })
    }

    pub(super) fn answered(&mut self, due: Instant, now: Instant, status: u16) {
        self.last_response = now;
        if status == 200 {
            self.answered += 1;
            self.record(now - due);
        } else {
            self.fail(&format!("status {status}"));
        }
    }

    pub(super) fn unanswered(&mut self, due: Instant, now: Instant) {
        self.unanswered += 1;
        self.record(now - due);
    }

    pub(super) fn fail(&mut self, why: &str) {
        self.failed += 1;
        why.clone_into(&mut self.last_failure);
    }

    pub(super) fn add(&mut self, other: &Self) -> Result<()> {
        self.last_response = self.last_response.max(other.last_response);
        self.answered += other.answered;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        if other.failed > 0 {
            self.last_failure.clone_from(&other.last_failure);
        }
        Ok(self.latencies.add(&other.latencies)?)
    }

    /// Answered requests per second, over the time until the last response.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / (self.last_response - self.start).as_secs_f64()
    }

    /// Latency at this quantile, from 0 to 1.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_quantile(share))
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(HIGHEST));
    }
}
