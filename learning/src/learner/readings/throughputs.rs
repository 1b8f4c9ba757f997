//! Throughputs: how many requests a pod ended in each of the last seconds.
//!
//! A reading of the CPU is a mean over some seconds, up to a minute ago. It is compared with the
//! same seconds: while the load grows, later ones would show a request as cheaper, and earlier ones
//! as dearer than it is.

use std::collections::VecDeque;
use std::time::Duration;

/// Seconds that are kept. An older reading is not used.
const SECONDS: usize = 128;

/// The last seconds without a gap.
#[derive(Clone, Debug, Default)]
pub(in crate::learner) struct Throughputs {
    /// The last second, in Unix time.
    newest: u64,
    seconds: VecDeque<f64>,
}

// === impl Throughputs ===

impl Throughputs {
    /// Adds the second that ended at `at`, in Unix time, with the mean of all pods.
    pub(in crate::learner) fn add(&mut self, at: Duration, throughput: f64) {
        let second = at.as_secs();
        if self.newest.checked_add(1) != Some(second) {
            self.seconds.clear();
        }
        self.newest = second;
        if self.seconds.len() == SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(throughput);
    }

    /// Mean between these times; `None` if a second of them is missing.
    pub(in crate::learner) fn mean(&self, from: Duration, to: Duration) -> Option<f64> {
        let ago = |time: Duration| usize::try_from(self.newest.checked_sub(time.as_secs())?).ok();
        let (from, to) = (ago(from)?, ago(to)?);
        let known = from > to && from <= self.seconds.len();
        let sum: f64 = self.seconds.iter().rev().skip(to).take(from.checked_sub(to)?).sum();
        known.then(|| sum / (from - to) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: u64) -> Duration {
        Duration::from_secs(1_600_000_000 + at)
    }

    /// The throughput of each second is its number.
    fn throughputs(seconds: impl IntoIterator<Item = u64>) -> Throughputs {
        let mut throughputs = Throughputs::default();
        seconds.into_iter().for_each(|at| throughputs.add(second(at), at as f64));
        throughputs
    }

    #[test]
    fn mean_is_of_the_seconds_between_two_times() {
        let throughputs = throughputs(1..=300);
        let mean = |from, to| throughputs.mean(second(from), second(to));
        assert_eq!(mean(280, 284), Some(282.5), "of 281 to 284");
        assert_eq!(mean(299, 300), Some(300.0));
        assert_eq!((mean(172, 173), mean(171, 173)), (Some(173.0), None), "no longer kept");
        assert_eq!((mean(290, 301), mean(284, 284), mean(284, 280)), (None, None, None));
    }

    #[test]
    fn seconds_before_a_gap_have_no_mean() {
        let throughputs = throughputs((1..=20).chain(22..=40));
        let mean = |from, to| throughputs.mean(second(from), second(to));
        assert_eq!((mean(15, 25), mean(21, 23)), (None, Some(22.5)));
        assert_eq!(Throughputs::default().mean(second(1), second(2)), None);
    }
}
