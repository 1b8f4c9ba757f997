//! Regime: whether pods still have the throughput that the load curve expects.
//!
//! The throughput of a pod does not fall when its load grows. If it does, requests take longer for
//! a reason outside of the pod's concurrency: a slow dependency, another mix of requests, a noisy
//! neighbour. A smaller target would then buy pods for nothing.

use std::time::Duration;

use crate::curve::{LoadCurve, Sums};
use crate::tuning;

/// Comparison of one block of seconds with the curve.
#[derive(Clone, Copy, Debug, Default)]
struct Comparison {
    observed: f64,
    least: f64,
    most: f64,
    seconds: f64,
    load: f64,
}

/// State of the service time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regime {
    /// Seconds of the present block, which join the curve if they agree with it.
    block: LoadCurve,
    comparison: Comparison,
    shifted_since: Option<Duration>,
    last_shift: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockResult {
    /// The throughput is the expected one.
    Agrees,
    /// It is another one.
    Shifted,
    /// It has been another one for so long that the old curve is discarded.
    Rebased,
}

// === impl Comparison ===

impl Comparison {
    fn is_shifted(&self, target: f64) -> bool {
        if self.observed.max(self.least) < tuning::curve::SHIFT_REQUESTS {
            return false;
        }
        let ratio = self.observed / self.observed.clamp(self.least, self.most.max(self.least));
        let overloaded = self.load > tuning::evidence::OVERLOAD * target * self.seconds;
        let deviation = if overloaded { tuning::curve::SHIFT_OVERLOADED } else { tuning::curve::SHIFT_DOWN };
        let noise = tuning::curve::SHIFT_NOISE / self.observed.max(1.0).sqrt();
        ratio.ln() < -(deviation + noise) || ratio.ln() > tuning::curve::SHIFT_UP + noise
    }
}

// === impl Regime ===

impl Regime {
    /// Adds one second of all pods.
    pub(crate) fn add(&mut self, second: &Sums) {
        self.block.add(second);
    }

    /// Compares one second of one pod with the curve. Pod by pod, because in an overload some pods
    /// are full while new ones are empty.
    pub(crate) fn compare(&mut self, second: &Sums, curve: &LoadCurve) {
        if let Some((least, most)) = curve.expected_throughput(second.load) {
            self.comparison.observed += second.completions;
            self.comparison.seconds += 1.0;
            self.comparison.load += second.load;
            self.comparison.least += least;
            self.comparison.most += most;
        }
    }

    /// Ends a block. Its seconds join the curve if they agree with it.
    ///
    /// `target` is the present one if it was good before. Without a good result the curve is not a
    /// reference yet.
    pub(crate) fn end_block(
        &mut self,
        curve: &mut LoadCurve,
        target: Option<f64>,
        now: Duration,
    ) -> BlockResult {
        let comparison = std::mem::take(&mut self.comparison);
        let shifted = target.is_some_and(|target| comparison.is_shifted(target));
        if !shifted {
            curve.absorb(&mut self.block);
            self.shifted_since = None;
            return BlockResult::Agrees;
        }
        self.block.clear();
        let since = *self.shifted_since.get_or_insert(now);
        self.last_shift = Some(now);
        if now.saturating_sub(since) >= tuning::curve::REBASE {
            curve.clear();
            *self = Self::default();
            return BlockResult::Rebased;
        }
        BlockResult::Shifted
    }

    /// Drops the seconds of the present block.
    pub(crate) fn drop_block(&mut self) {
        self.block.clear();
        self.comparison = Comparison::default();
    }

    /// Whether the service time changed a short time ago.
    pub(crate) fn is_unstable(&self, now: Duration) -> bool {
        self.last_shift.is_some_and(|at| now.saturating_sub(at) < tuning::curve::REBASE)
    }
}
