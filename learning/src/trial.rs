//! Trial: the seconds at the present target that show something about it.

use crate::curve::Sums;
use crate::tuning;

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
}

// === impl Trial ===

impl Trial {
    /// Adds one second of all pods.
    pub(crate) fn add(&mut self, second: &Sums) {
        self.sums.add(second);
        self.seconds += 1.0;
        self.total_load += second.load;
        self.times += second.mean_time();
        self.time_squares += second.mean_time() * second.mean_time();
    }

    /// Lowers the weight of the past.
    pub(crate) fn fade(&mut self) {
        let factor = tuning::steps::FADING;
        self.sums.scale(factor);
        self.seconds *= factor;
        self.total_load *= factor;
        self.times *= factor;
        self.time_squares *= factor;
    }

    /// Relative standard deviation of the mean time of a request.
    pub(crate) fn time_deviation(&self) -> f64 {
        if self.seconds < 2.0 || self.times <= 0.0 {
            return 1.0;
        }
        let mean = self.times / self.seconds;
        let variance = (self.time_squares / self.seconds - mean * mean).max(0.0);
        (tuning::evidence::DESIGN_EFFECT * variance / self.seconds).sqrt() / mean
    }

    /// Mean concurrency of the whole workload.
    fn total_load(&self) -> f64 {
        if self.seconds > 0.0 { self.total_load / self.seconds } else { 0.0 }
    }

    /// Mean load of a pod if the target were this, and the time of a request the same.
    pub(crate) fn load_at(&self, target: f64) -> f64 {
        let total = self.total_load();
        total / (total / target).ceil().max(1.0)
    }

    /// The target at which the pods would be one less than they were. Four pods do not become less
    /// by the usual raises. Fewer would need a raise by half, which may lead far above the knee.
    pub(crate) fn target_of_one_pod_less(&self) -> Option<f64> {
        let pods = (self.sums.seconds / self.seconds).round();
        (pods > 3.0).then(|| tuning::steps::ABOVE_LOAD * self.total_load() / (pods - 1.0))
    }

    /// Bounds of the miss rate, this many standard deviations away.
    pub(crate) fn miss_rate_bounds(&self, deviations: f64) -> (f64, f64) {
        let count = self.sums.completions.max(1.0);
        // Half a miss more, so that a trial without any miss still has a deviation.
        let rate = ((self.sums.misses + 0.5) / (count + 1.0)).min(1.0);
        let deviation =
            deviations * (tuning::evidence::DESIGN_EFFECT * rate * (1.0 - rate).max(0.0) / count).sqrt();
        (rate - deviation, rate + deviation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten seconds of pods with this load each.
    fn trial(pods: f64, load: f64) -> Trial {
        let mut trial = Trial::default();
        let second = Sums { seconds: pods, load: pods * load, ..Sums::default() };
        (0..10).for_each(|_| trial.add(&second));
        trial
    }

    #[test]
    fn target_of_one_pod_less_removes_one_pod() {
        for pods in 4..20 {
            let trial = trial(f64::from(pods), 6.0);
            let target = trial.target_of_one_pod_less().unwrap();
            assert_eq!((f64::from(pods) * 6.0 / target).ceil(), f64::from(pods - 1), "{pods} pods: {target}");
        }
    }

    #[test]
    fn one_of_three_pods_is_not_removed() {
        assert_eq!(trial(3.0, 6.0).target_of_one_pod_less(), None);
        assert_eq!(Trial::default().target_of_one_pod_less(), None);
    }
}
