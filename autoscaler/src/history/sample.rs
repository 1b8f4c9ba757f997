//! Sample: the state of a workload in one interval, and the series of an hour.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Length of an interval, in milliseconds: fifteen decisions.
pub const INTERVAL_MS: i64 = 30_000;
/// Intervals of an hour.
pub(super) const SAMPLES: usize = 120;
/// Number of pods that is stored as unknown. Larger ones are stored as one less than it.
const UNKNOWN: u16 = u16::MAX;

/// The state of a workload. Numbers of pods above 65,534 are kept as that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Average over the stable window, of all pods together; `None` without data.
    #[serde(default)]
    pub load: Option<f64>,
    /// Ready pods.
    pub ready: u32,
    /// Pods that the load needs, before minReplicas and maxReplicas; `None` without data.
    #[serde(default)]
    pub decided: Option<u32>,
    /// Target in force: the load that one pod should carry.
    pub target: f64,
    /// The learned target, whether it is in force or recommended; `None` without learning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learned: Option<f64>,
    /// Whether panic mode was on at any time of the interval.
    #[serde(default)]
    pub panicking: bool,
}

/// A sample as it is stored.
#[derive(Clone, Copy, Debug)]
struct PackedSample {
    /// Number of the interval since the epoch.
    interval: u32,
    /// NaN is unknown, here and in `learned`.
    load: f32,
    target: f32,
    learned: f32,
    ready: u16,
    decided: u16,
    panicking: bool,
}

/// The samples of an hour, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct SampleSeries(VecDeque<PackedSample>);

// === impl SampleSeries ===

impl SampleSeries {
    /// Replaces the sample of the interval of `at`. A time before the newest sample, by a clock
    /// that was set back, is dropped until the clock has caught up, or replaces all if that takes
    /// longer than the hour.
    pub(super) fn record(&mut self, at: i64, state: Sample) {
        let Ok(interval) = u32::try_from(at.div_euclid(INTERVAL_MS)) else { return };
        let mut sample = PackedSample::new(interval, state);
        match self.0.back().map(|newest| newest.interval) {
            Some(newest) if newest == interval => {
                sample.panicking |= self.0.pop_back().is_some_and(|newest| newest.panicking);
            }
            Some(newest) if newest > interval && newest - interval < SAMPLES as u32 => return,
            Some(newest) if newest > interval => self.0.clear(),
            _ => {}
        }
        let oldest = interval.saturating_sub(SAMPLES as u32 - 1);
        while self.0.front().is_some_and(|sample| sample.interval < oldest) {
            self.0.pop_front();
        }
        self.0.push_back(sample);
    }

    /// The samples of intervals that begin after `begin`.
    pub(super) fn since(&self, begin: i64) -> impl Iterator<Item = (i64, Sample)> + use<'_> {
        self.0.iter().map(|sample| (sample.begin(), sample.unpack())).filter(move |(at, _)| *at > begin)
    }

    pub(super) fn newest(&self) -> Option<(i64, Sample)> {
        self.0.back().map(|sample| (sample.begin(), sample.unpack()))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<PackedSample>()
    }
}

// === impl PackedSample ===

impl PackedSample {
    fn new(interval: u32, state: Sample) -> Self {
        let pods = |pods: u32| u16::try_from(pods).unwrap_or(UNKNOWN).min(UNKNOWN - 1);
        let number = |value: Option<f64>| value.map_or(f32::NAN, |value| value as f32);
        Self {
            interval,
            load: number(state.load),
            target: state.target as f32,
            learned: number(state.learned),
            ready: pods(state.ready),
            decided: state.decided.map_or(UNKNOWN, pods),
            panicking: state.panicking,
        }
    }

    fn begin(&self) -> i64 {
        i64::from(self.interval) * INTERVAL_MS
    }

    fn unpack(&self) -> Sample {
        // Thousandths, as in quantities; further digits are rounding of the f32.
        let number = |value: f32| value.is_finite().then(|| (f64::from(value) * 1000.0).round() / 1000.0);
        Sample {
            load: number(self.load),
            ready: self.ready.into(),
            decided: (self.decided != UNKNOWN).then(|| self.decided.into()),
            target: number(self.target).unwrap_or_default(),
            learned: number(self.learned),
            panicking: self.panicking,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(states: &[(i64, Sample)]) -> Vec<(i64, Sample)> {
        let mut series = SampleSeries::default();
        states.iter().for_each(|(at, state)| series.record(*at, *state));
        series.since(i64::MIN).collect()
    }

    #[test]
    fn interval_has_its_newest_state_and_any_panic_of_it() {
        let state = |ready, panicking| Sample { ready, panicking, target: 70.0, ..Sample::default() };
        let states = [(0, state(1, true)), (29_999, state(2, false)), (30_000, state(3, false))];
        assert_eq!(series(&states), [(0, state(2, true)), (30_000, state(3, false))]);
    }

    #[test]
    fn unknown_values_stay_unknown_and_large_sizes_saturate() {
        let unknown = Sample { load: None, decided: None, learned: None, target: 0.5, ..Sample::default() };
        assert_eq!(series(&[(0, unknown)]), [(0, unknown)]);
        let zero = Sample { load: Some(0.0), decided: Some(0), ..unknown };
        assert_eq!(series(&[(0, zero)]), [(0, zero)]);
        let large = Sample { ready: u32::MAX, decided: Some(65_535), ..unknown };
        let kept = Sample { ready: 65_534, decided: Some(65_534), ..unknown };
        assert_eq!(series(&[(0, large)]), [(0, kept)]);
        assert_eq!(series(&[(0, Sample { load: Some(f64::NAN), ..unknown })]), [(0, unknown)]);
    }

    #[test]
    fn clock_that_was_set_back_leaves_order_and_bound() {
        let state = Sample::default();
        let hour = 3_600_000;
        assert_eq!(series(&[(-5, state), (i64::MAX, state)]), []);
        let back_a_minute = [(hour, state), (hour - 60_000, state), (hour + 30_000, state)];
        assert_eq!(series(&back_a_minute), [(hour, state), (hour + 30_000, state)]);
        assert_eq!(series(&[(3 * hour, state), (hour, state)]), [(hour, state)]);
    }
}
