//! CPU line: the CPU time of a request, and the load at which a pod has used its CPU limit.
//!
//! The utilization law: a pod ends at most as many requests a second as its CPU limit over the CPU
//! time of one. So pods with little load show how much they can carry. The load of a reading is the
//! requests that pods ended in the seconds of the reading.

use serde::{Deserialize, Serialize};

use super::ReadingLine;
use crate::curve::LEAST_LOAD;
use crate::tuning;

/// CPU of a pod at each throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in crate::learner) struct CpuLine(ReadingLine);

/// A pod that uses the share of its CPU limit up to which a target may lead.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuRoom {
    /// Requests that it ends in a second.
    pub throughput: f64,
    /// Requests that it has at a time.
    pub load: f64,
}

// === impl CpuLine ===

impl CpuLine {
    /// Whether the restored sums are usable.
    pub(in crate::learner) fn is_valid(&self) -> bool {
        self.0.is_valid()
    }

    /// Adds a reading of one pod, as a share of its limit, while pods ended so many requests a
    /// second.
    pub(in crate::learner) fn add(&mut self, throughput: f64, share: f64) {
        self.0.add(throughput, share);
    }

    /// Multiplies the weight of the past.
    pub(in crate::learner) fn decay(&mut self, factor: f64) {
        self.0.decay(factor);
    }

    /// The room that there surely is, for a raise, where a request takes this time without load. A
    /// request costs at most all CPU time over the number of requests. `None` without a reading, or
    /// without a bound.
    pub(in crate::learner) fn sure_room(&self, unloaded_time: f64) -> Option<CpuRoom> {
        let (throughput, share) = self.0.mean()?;
        let most = share / throughput.max(LEAST_LOAD);
        self.room(self.0.sure_slope(most), unloaded_time)
    }

    /// The room that there may be, for a lower target. `None` without a sure slope.
    pub(in crate::learner) fn possible_room(&self, unloaded_time: f64) -> Option<CpuRoom> {
        self.room(self.0.possible_slope()?, unloaded_time)
    }

    /// The room on the line with this slope through the mean of the readings. Requests share the
    /// CPU as in a queue with processor sharing: at a utilization of ρ, one that needs `slope`
    /// seconds of the whole limit takes `slope` · ρ / (1 - ρ) longer. `None` where there is none
    /// without any request: a pod that is always busy lets requests go first, as far as they show.
    fn room(&self, slope: f64, unloaded_time: f64) -> Option<CpuRoom> {
        let (mean, share) = self.0.mean()?;
        let most = tuning::readings::MOST_CPU;
        let throughput = mean + (most - share) / slope;
        let load = throughput * (unloaded_time + slope * most / (1.0 - most));
        (slope > 0.0 && throughput > 0.0 && load.is_finite()).then_some(CpuRoom { throughput, load })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings at these throughputs of pods that use a share of their limit without requests, and
    /// 1 % for each request of a second: a hundred a second would fill it.
    fn line(idle: f64, throughputs: impl IntoIterator<Item = f64>) -> CpuLine {
        let mut line = CpuLine::default();
        for (reading, throughput) in throughputs.into_iter().enumerate() {
            let noise = [-0.01, 0.02, -0.01][reading % 3];
            line.add(throughput, idle + 0.01 * throughput + noise);
        }
        line
    }

    #[test]
    fn pods_with_little_load_show_the_room_of_a_full_one() {
        let line = line(0.1, (0..60).map(|n| 20.0 + f64::from(n % 20)));
        let (sure, possible) = (line.sure_room(0.1).unwrap(), line.possible_room(0.1).unwrap());
        // 85 % of the limit, of which 10 % are not for requests, and 0.1 s + 0.01 s * 0.85 / 0.15.
        let (throughput, load) = (75.0, 75.0 * (0.1 + 0.01 * 0.85 / 0.15));
        assert!((0.8 * throughput..throughput).contains(&sure.throughput), "{sure:?}");
        assert!((throughput..1.2 * throughput).contains(&possible.throughput), "{possible:?}");
        assert!((0.8 * load..load).contains(&sure.load), "{sure:?}");
        assert!((load..1.2 * load).contains(&possible.load), "{possible:?}");
    }

    #[test]
    fn readings_at_one_load_bound_raises_alone() {
        let line = line(0.1, [40.0; 60]);
        assert_eq!(line.possible_room(0.1), None);
        // All of the 50 % are of the requests.
        assert!((line.sure_room(0.1).unwrap().throughput - 68.0).abs() < 0.1);
    }

    #[test]
    fn pod_without_readings_or_without_cpu_for_requests_has_no_bound() {
        assert_eq!(CpuLine::default().sure_room(0.1), None);
        let free = |n| 20.0 + f64::from(n % 20);
        assert_eq!(line(1.5, (0..60).map(free)).possible_room(0.1), None);
        let mut idle = CpuLine::default();
        (0..60).for_each(|n| idle.add(free(n), 0.0));
        assert_eq!((idle.sure_room(0.1), idle.possible_room(0.1)), (None, None));
    }
}
