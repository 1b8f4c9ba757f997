//! Memory line: the memory of a pod at each load, and the load that fits into its limit.
//!
//! The load of a reading is the mean of all pods over some seconds before it arrives, and only its
//! slow changes show what a request costs.
//!
//! A container is killed for its momentary memory. In a pod with a mean load of T requests there
//! are up to T + 4·√T at a time, as many as independent arrivals bring. Arrivals that are balanced
//! spread less, which the readings show.

use serde::{Deserialize, Serialize};

use super::ReadingLine;
use crate::curve::LEAST_LOAD;
use crate::tuning;

/// Memory of a pod at each number of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::learner) struct MemoryLine {
    #[serde(flatten)]
    line: ReadingLine,
    /// Smoothed mean load of the pods; `None` before the first second.
    #[serde(skip)]
    load: Option<f64>,
    /// Whether a pod was killed, so that its peak was one of independent arrivals.
    killed: bool,
}

// === impl MemoryLine ===

impl MemoryLine {
    /// Whether the restored sums are usable.
    pub(in crate::learner) fn is_valid(&self) -> bool {
        self.line.is_valid()
    }

    /// Adds a second with this mean load of all pods.
    pub(in crate::learner) fn add_load(&mut self, load: f64) {
        self.load = Some(self.load.map_or(load, |old| old + tuning::memory::SMOOTHING * (load - old)));
    }

    /// Adds a reading of one pod, as a share of its limit.
    pub(in crate::learner) fn add_reading(&mut self, share: f64) {
        if let Some(load) = self.load {
            self.line.add(load, share);
        }
    }

    /// Records a kill: from then on the spread of the readings does not count.
    pub(in crate::learner) fn record_kill(&mut self) {
        self.killed = true;
    }

    /// Multiplies the weight of the past.
    pub(in crate::learner) fn decay(&mut self, factor: f64) {
        self.line.decay(factor);
    }

    /// The smoothed mean load of the pods.
    pub(in crate::learner) fn load(&self) -> Option<f64> {
        self.load
    }

    /// Whether the line shows more than a kill does.
    pub(in crate::learner) fn is_precise(&self) -> bool {
        self.line.readings >= tuning::memory::PRECISE_READINGS
    }

    /// Whether there are readings, but too few of them for a line.
    pub(in crate::learner) fn is_open(&self) -> bool {
        self.line.readings > 0.0 && !self.is_precise()
    }

    /// The largest target that surely fits, for a raise. `None` without any reading.
    pub(in crate::learner) fn sure_target(&self) -> Option<f64> {
        let (load, share) = self.line.mean()?;
        let slope = self.line.sure_slope(self.most_of_request(load, share)?);
        Some(fitting(load, share, slope, self.peak(slope)))
    }

    /// The most that a request may cost, without readings at other loads: all memory above the
    /// smallest reading. Pods that are never idle have no reading without requests, but then the
    /// readings spread at least as the requests do.
    fn most_of_request(&self, load: f64, share: f64) -> Option<f64> {
        let ReadingLine { readings, share_squares, least, .. } = self.line;
        let load = load.max(LEAST_LOAD);
        let spread = (share_squares / readings - share * share).max(0.0).sqrt();
        let above_least = (share - least?) / load;
        Some(above_least.max(spread / (tuning::memory::LEAST_SPREAD * load.sqrt())).max(0.0))
    }

    /// Requests at a time that surely fit, if each costs the most that it may: soon after a kill
    /// the line has readings of few loads. `None` without a reading, or where all are the same.
    pub(in crate::learner) fn most_requests(&self) -> Option<f64> {
        let (load, share) = self.line.mean()?;
        let each = self.most_of_request(load, share)?;
        (each > 0.0).then(|| load + (1.0 - share).max(0.0) / each)
    }

    /// The largest target that may fit, for a lower one. `None` without a sure slope.
    pub(in crate::learner) fn possible_target(&self) -> Option<f64> {
        let (load, share) = self.line.mean()?;
        let slope = self.line.possible_slope()?;
        Some(fitting(load, share, slope, self.peak(self.line.fit()?.slope)))
    }

    /// Standard deviations of independent arrivals in the peak, where a request costs `slope`.
    fn peak(&self, slope: f64) -> f64 {
        let fit = self.line.fit().filter(|_| self.is_precise() && !self.killed);
        let spread = fit
            .zip(self.line.mean())
            .map_or(1.0, |(fit, (load, _))| fit.spread / (slope * load.max(LEAST_LOAD).sqrt()));
        tuning::memory::PEAK
            * if spread.is_finite() { spread.clamp(tuning::memory::LEAST_SPREAD, 1.0) } else { 1.0 }
    }
}

/// The mean load at which the peak fills the limit, on the line with this slope through this point.
fn fitting(load: f64, share: f64, slope: f64, peak: f64) -> f64 {
    let room = 1.0 - share + slope * load;
    if slope <= 0.0 || room <= 0.0 {
        return if room > 0.0 { f64::INFINITY } else { 0.0 };
    }
    // T + peak·√T requests fill the room.
    let root = ((peak * peak + 4.0 * room / slope).sqrt() - peak) / 2.0;
    root * root
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings of pods with these loads, which spread by this factor of independent arrivals: 56
    /// MiB and 20 MiB a request, of 256 MiB.
    fn line(loads: impl IntoIterator<Item = f64>, spread: f64) -> MemoryLine {
        let mut line = MemoryLine::default();
        for load in loads {
            line.load = Some(load);
            for deviation in [-1.2, 0.0, 1.2] {
                let requests = (load + deviation * spread * load.sqrt()).max(0.0);
                line.add_reading((56.0 + 20.0 * requests) / 256.0);
            }
        }
        line
    }

    #[test]
    fn target_leaves_room_for_the_peak_of_a_pod() {
        for (spread, expected) in [(1.0, 2.8..=3.3), (0.5, 3.6..=4.2)] {
            let line = line((0..800).map(|n| 0.5 + f64::from(n) / 400.0), spread);
            let (sure, possible) = (line.sure_target().unwrap(), line.possible_target().unwrap());
            assert!(expected.contains(&sure), "{sure} with {spread}");
            assert!((sure..=5.0).contains(&possible), "{possible} with {spread}");
        }
    }

    #[test]
    fn readings_at_one_load_are_no_reason_to_lower() {
        assert_eq!(line([3.0; 40], 1.0).possible_target(), None);
        assert!(line([3.0; 40], 1.0).sure_target().unwrap() < 3.1);
    }

    #[test]
    fn memory_of_caches_is_no_reason_to_lower() {
        let mut line = MemoryLine::default();
        for n in 0..200 {
            line.load = Some(1.0 + f64::from(n % 7));
            line.add_reading(if n == 0 { 0.3 } else { 0.8 + 0.01 * f64::from(n % 3) });
        }
        assert!(line.possible_target().is_none_or(|target| target > 10.0));
    }
}
