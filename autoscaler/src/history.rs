//! The last hour of one workload: samples of its load and sizes, and its wakes.
//!
//! The metrics-adapter keeps one for each workload and records each attempt to decide, and the
//! wakes that activators report. `kubectl rouse ui` reads it through the metrics API and draws it.
//! It is lost with the process: the replica that leads next has its own, which may be shorter.
//!
//! One workload takes at most [`MAX_BYTES`]. Missing data leaves a gap: no sample, or a sample
//! without a load, and never a zero.

mod first_request;
mod report;
mod sample;
mod wake;

use std::collections::VecDeque;

pub use first_request::{ClientVisits, FirstRequest, FirstRequests};
pub use report::{CurrentSample, CurrentSamples, HistoryReport, TimedSample};
pub use sample::{INTERVAL_MS, Sample};
use sample::{SAMPLES, SampleSeries};
pub use wake::Wake;

/// Bound of the memory of one workload's history, in bytes, allocations included.
pub const MAX_BYTES: usize = 4096;
/// How far the history goes back, in milliseconds.
pub const SPAN_MS: i64 = SAMPLES as i64 * INTERVAL_MS;
/// Wakes that are kept; with one more, the oldest is dropped.
pub const MAX_WAKES: usize = 16;

/// The last hour of one workload.
#[derive(Clone, Debug, Default)]
pub struct HourHistory {
    samples: SampleSeries,
    wakes: VecDeque<Wake>,
}

// === impl HourHistory ===

impl HourHistory {
    /// Records the state at `at`, in Unix milliseconds. States of one interval become one sample.
    pub fn record(&mut self, at: i64, state: Sample) {
        self.samples.record(at, state);
    }

    /// Records a wake, unless another activator reported the same one for an earlier request. `now`
    /// is in Unix milliseconds; wakes that cannot have ended just now are dropped.
    pub fn record_wake(&mut self, wake: Wake, now: i64) {
        if !wake.is_plausible(now) {
            return;
        }
        match self.wakes.iter_mut().find(|other| other.overlaps(&wake)) {
            Some(other) if wake.received < other.received => *other = wake,
            Some(_) => {}
            None => {
                if self.wakes.len() >= MAX_WAKES {
                    self.wakes.pop_front();
                }
                self.wakes.push_back(wake);
            }
        }
    }

    /// The samples of the hour before `now`, the oldest first, each with the Unix milliseconds at
    /// which its interval begins.
    pub fn samples(&self, now: i64) -> impl Iterator<Item = (i64, Sample)> + use<'_> {
        self.samples.since(now.saturating_sub(SPAN_MS))
    }

    /// The newest sample, with the beginning of its interval.
    pub fn newest(&self) -> Option<(i64, Sample)> {
        self.samples.newest()
    }

    /// The wakes of the hour before `now`, in the order of their reports.
    pub fn wakes(&self, now: i64) -> impl Iterator<Item = Wake> + use<'_> {
        self.wakes.iter().copied().filter(move |wake| wake.received >= now.saturating_sub(SPAN_MS))
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.samples.heap_bytes() + self.wakes.capacity() * size_of::<Wake>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(received: i64, answered: u32) -> Wake {
        Wake {
            received,
            reported: Some(1),
            created: Some(20),
            scheduled: Some(30),
            started: 400,
            verified: 600,
            forwarded: answered.saturating_sub(5),
            answered,
        }
    }

    #[test]
    fn a_day_of_decisions_and_wakes_stays_within_the_bound() {
        let (mut history, start) = (HourHistory::default(), 1_800_000_000_000);
        let state = Sample { load: Some(1.0), ready: 3, target: 70.0, ..Sample::default() };
        for second in (0..24 * 3600).step_by(2) {
            let now = start + second * 1000;
            history.record(now, state);
            history.record_wake(wake(now - 1500, 1000), now);
            assert!(history.bytes() <= MAX_BYTES, "{} after {second} s", history.bytes());
        }
        let now = start + 24 * 3_600_000 - 2000;
        let samples: Vec<_> = history.samples(now).collect();
        assert_eq!(samples.len(), SAMPLES);
        assert!(samples.windows(2).all(|pair| pair[1].0 - pair[0].0 == INTERVAL_MS), "{samples:?}");
        assert_eq!(history.wakes(now).count(), MAX_WAKES);
        assert_eq!(history.wakes(now + SPAN_MS).count(), 0, "an hour later");
        assert_eq!(history.samples(now + SPAN_MS).count(), 0);
    }

    #[test]
    fn wake_reported_by_two_activators_is_that_of_the_earlier_request() {
        let mut history = HourHistory::default();
        for received in [1_000_200, 1_000_000, 1_000_100, 1_900_000] {
            history.record_wake(wake(received, 1000), received + 1500);
        }
        let received: Vec<_> = history.wakes(2_000_000).map(|wake| wake.received).collect();
        assert_eq!(received, [1_000_000, 1_900_000]);
    }

    #[test]
    fn drops_implausible_wakes() {
        let (mut history, now) = (HourHistory::default(), 1_800_000_000_000);
        let reversed = Wake { forwarded: 900, answered: 800, ..wake(now - 1000, 800) };
        for bad in [wake(now + 120_000, 1000), wake(now - 2 * SPAN_MS, 1000), wake(i64::MIN, 1), reversed] {
            history.record_wake(bad, now);
        }
        assert_eq!(history.wakes(now).count(), 0);
        history.record_wake(wake(i64::MAX, u32::MAX), i64::MAX);
    }
}
