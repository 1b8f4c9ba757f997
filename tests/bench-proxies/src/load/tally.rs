//! What became of the requests of a run.

use std::time::{Duration, Instant};

use anyhow::Result;
use hdrhistogram::Histogram;

/// Latencies are kept in nanoseconds, to three digits: from 100 ns, below which nothing happens, to a minute.
const LOWEST: u64 = 100;
const HIGHEST: u64 = 60_000_000_000;
const DIGITS: u8 = 3;

/// Counts and latencies.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    start: Instant,
    last_answer: Instant,
    /// Requests answered 200.
    pub(crate) answered: u64,
    /// Requests answered otherwise, or cut off.
    pub(crate) failed: u64,
    /// Requests that were due and had no answer when the run was given up.
    pub(crate) unanswered: u64,
    /// How the last one failed.
    pub(crate) last_failure: String,
    /// Of requests answered 200, and, as long as they were waited for, of the unanswered.
    pub(crate) latencies: Histogram<u64>,
}

// === impl Tally ===

impl Tally {
    pub(super) fn new(start: Instant) -> Result<Self> {
        Ok(Self {
            start,
            last_answer: start,
            answered: 0,
            failed: 0,
            unanswered: 0,
            last_failure: String::new(),
            latencies: Histogram::new_with_bounds(LOWEST, HIGHEST, DIGITS)?,
        })
    }

    pub(super) fn answered(&mut self, due: Instant, now: Instant, status: u16) {
        self.last_answer = now;
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
        self.last_answer = self.last_answer.max(other.last_answer);
        self.answered += other.answered;
        self.failed += other.failed;
        self.unanswered += other.unanswered;
        if other.failed > 0 {
            self.last_failure.clone_from(&other.last_failure);
        }
        Ok(self.latencies.add(&other.latencies)?)
    }

    /// Requests answered 200 in a second; the time is until the last answer, so that none is counted for nothing.
    pub(crate) fn rate(&self) -> f64 {
        self.answered as f64 / (self.last_answer - self.start).as_secs_f64()
    }

    /// The latency that this share of requests did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_quantile(share))
    }

    fn record(&mut self, latency: Duration) {
        self.latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(HIGHEST));
    }
}
