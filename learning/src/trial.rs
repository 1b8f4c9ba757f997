//! Trial: the seconds at the present target that show something about it.

use crate::curve::Sums;
use crate::observation::PodSecond;

/// Factor on the variance of a share, because slow responses come in groups.
const DESIGN_EFFECT: f64 = 3.0;

/// Sums since the last change of the target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Trial {
    /// All pods.
    pub(crate) sums: Sums,
    /// Seconds that count.
    pub(crate) seconds: f64,
    /// Concurrency of the whole workload, summed over these seconds.
    total_load: f64,
    /// Squares of the mean time of a request in each second.
    time_squares: f64,
    /// Means of the time of a request in each second.
    times: f64,
    /// Share of throttled CPU periods of the most throttled pod, summed over the seconds.
    throttled: f64,
}

/// Resources of the pod that has the least left, in one second. 0 without data, which permits
/// nothing that the other evidence does not permit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResourcePressure {
    /// Share of throttled CPU periods.
    pub(crate) throttled: f64,
}

// === impl ResourcePressure ===

impl ResourcePressure {
    /// Includes another pod.
    pub(crate) fn include(&mut self, pod: &PodSecond) {
        self.throttled = self.throttled.max(pod.throttled.unwrap_or(0.0));
    }
}

// === impl Trial ===

impl Trial {
    /// Adds one second of all pods.
    pub(crate) fn add(&mut self, second: &Sums, pressure: ResourcePressure) {
        self.sums.add(second);
        self.seconds += 1.0;
        self.total_load += second.load;
        self.times += second.mean_time();
        self.time_squares += second.mean_time() * second.mean_time();
        self.throttled += pressure.throttled;
    }

    /// Mean share of throttled CPU periods of the most throttled pod.
    pub(crate) fn throttled(&self) -> f64 {
        if self.seconds > 0.0 { self.throttled / self.seconds } else { 0.0 }
    }

    /// Halves the weight of the past.
    pub(crate) fn fade(&mut self) {
        self.sums.scale(0.5);
        self.seconds *= 0.5;
        self.total_load *= 0.5;
        self.throttled *= 0.5;
        self.times *= 0.5;
        self.time_squares *= 0.5;
    }

    /// Relative standard deviation of the mean time of a request.
    pub(crate) fn time_deviation(&self) -> f64 {
        if self.seconds < 2.0 || self.times <= 0.0 {
            return 1.0;
        }
        let mean = self.times / self.seconds;
        let variance = (self.time_squares / self.seconds - mean * mean).max(0.0);
        (DESIGN_EFFECT * variance / self.seconds).sqrt() / mean
    }

    /// Mean concurrency of the whole workload.
    pub(crate) fn total_load(&self) -> f64 {
        if self.seconds > 0.0 { self.total_load / self.seconds } else { 0.0 }
    }

    /// Mean load of a pod if the target were this, and the time of a request the same.
    pub(crate) fn load_at(&self, target: f64) -> f64 {
        let total = self.total_load();
        total / (total / target).ceil().max(1.0)
    }

    /// Bounds of the miss rate, this many standard deviations away.
    pub(crate) fn miss_rate_bounds(&self, deviations: f64) -> (f64, f64) {
        let count = self.sums.completions.max(1.0);
        // Half a miss more, so that a trial without any miss still has a deviation.
        let rate = ((self.sums.misses + 0.5) / (count + 1.0)).min(1.0);
        let deviation = deviations * (DESIGN_EFFECT * rate * (1.0 - rate).max(0.0) / count).sqrt();
        (rate - deviation, rate + deviation)
    }
}
