//! Load curve: throughput, time in the app and misses of a pod at each load.
//!
//! Bins of the load are logarithmic. The load of a second is the mean of all pods: a single pod's
//! load in a single second is high because its requests happen to be long, and shows nothing about
//! what the load does to them.

use serde::{Deserialize, Serialize};

use crate::tuning;

/// Bins in an octave of the load.
const PER_OCTAVE: f64 = 4.0;
/// Upper edge of the first bin.
const FIRST: f64 = 0.25;
/// Number of bins; the last one begins above 800.
const BINS: usize = 48;
/// Least load that divides.
pub(crate) const LEAST_LOAD: f64 = 1e-3;

/// Sums of seconds of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// Seconds of pods.
    pub(crate) seconds: f64,
    /// Concurrency, summed over the seconds.
    pub(crate) load: f64,
    /// Requests that ended.
    pub(crate) completions: f64,
    /// Seconds of these requests in the app.
    pub(crate) time: f64,
    /// Requests that missed the objective or failed.
    pub(crate) misses: f64,
}

/// The curve of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "StoredBins", try_from = "StoredBins")]
pub(crate) struct LoadCurve {
    bins: Vec<Sums>,
}

/// The bins that have data, each with its place. A workload has few of them, and its state is
/// sent with each decision.
#[derive(Serialize, Deserialize)]
struct StoredBins(Vec<(usize, [f64; 5])>);

/// A stored bin has a place that the curve does not have.
#[derive(Debug, thiserror::Error)]
#[error("bin {0} is beyond the last bin of the load curve, {last}", last = BINS - 1)]
struct NoSuchBin(usize);

// === impl Sums ===

impl Sums {
    pub(crate) fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.load += other.load;
        self.completions += other.completions;
        self.time += other.time;
        self.misses += other.misses;
    }

    pub(crate) fn scale(&mut self, factor: f64) {
        self.seconds *= factor;
        self.load *= factor;
        self.completions *= factor;
        self.time *= factor;
        self.misses *= factor;
    }

    /// Mean load of a pod.
    pub(crate) fn mean_load(&self) -> f64 {
        ratio(self.load, self.seconds)
    }

    /// Requests a second of one pod.
    pub(crate) fn throughput(&self) -> f64 {
        ratio(self.completions, self.seconds)
    }

    /// Mean seconds of a request in the app.
    pub(crate) fn mean_time(&self) -> f64 {
        ratio(self.time, self.completions)
    }

    /// Share of requests that missed the objective.
    pub(crate) fn miss_rate(&self) -> f64 {
        ratio(self.misses, self.completions)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.completions >= tuning::curve::KNOWN_REQUESTS
    }

    /// Whether there is as much as one second of a pod. Less is the rest of a faded past.
    fn has_data(&self) -> bool {
        self.seconds >= 1.0
    }
}

// === impl LoadCurve ===

impl Default for LoadCurve {
    fn default() -> Self {
        Self { bins: vec![Sums::default(); BINS] }
    }
}

impl LoadCurve {
    /// Adds one second of all pods.
    pub(crate) fn add(&mut self, second: &Sums) {
        if let Some(bin) = self.bins.get_mut(index(second.mean_load())) {
            bin.add(second);
        }
    }

    /// Adds all seconds of another curve and empties it.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        for (bin, from) in self.bins.iter_mut().zip(&mut other.bins) {
            bin.add(from);
            *from = Sums::default();
        }
    }

    /// Multiplies the weight of all seconds.
    pub(crate) fn decay(&mut self, factor: f64) {
        for bin in &mut self.bins {
            bin.scale(factor);
        }
    }

    /// Removes all seconds.
    pub(crate) fn clear(&mut self) {
        self.bins.fill(Sums::default());
    }

    /// Whether the restored bins are usable.
    pub(crate) fn is_valid(&self) -> bool {
        let usable = |bin: &Sums| {
            [bin.seconds, bin.load, bin.completions, bin.time, bin.misses].into_iter().all(is_usable)
        };
        self.bins.len() == BINS && self.bins.iter().all(usable)
    }

    /// The seconds at loads at which requests do not wait for each other: the lowest known bins, as
    /// long as the time in the app stays the same. `None` unless they span half an octave, because
    /// one bin alone may already be above the knee.
    pub(crate) fn flat(&self) -> Option<Sums> {
        let mut bins = self.bins.iter().filter(|bin| bin.is_known());
        let first = *bins.next()?;
        let (mut pool, mut last) = (first, first);
        for bin in bins {
            let noise = tuning::curve::SAME_TIME_NOISE / bin.completions.min(pool.completions).sqrt();
            if bin.mean_time() > pool.mean_time() * (1.0 + tuning::curve::SAME_TIME + noise) {
                break;
            }
            pool.add(bin);
            last = *bin;
        }
        let spans = last.mean_load() >= first.mean_load() * tuning::curve::REFERENCE_SPAN;
        (spans && pool.completions >= tuning::curve::REFERENCE_REQUESTS).then_some(pool)
    }

    /// All seconds at loads at which requests do not wait for each other, if this target is the
    /// first one at which they do; `None` if they have too few requests for a mean.
    pub(crate) fn unloaded(&self, target: f64) -> Option<Sums> {
        let mut pool = Sums::default();
        self.bins.iter().filter(|bin| bin.mean_load() < target / 2.0).for_each(|bin| pool.add(bin));
        (pool.completions >= tuning::curve::REFERENCE_REQUESTS).then_some(pool)
    }

    /// The known half octaves of the load, the lowest first.
    pub(crate) fn half_octaves(&self) -> impl Iterator<Item = Sums> {
        let pools = self.bins.chunks(2).map(|bins| {
            let mut pool = Sums::default();
            bins.iter().for_each(|bin| pool.add(bin));
            pool
        });
        pools.filter(Sums::is_known)
    }

    /// Bounds of the throughput of a pod at a load: exact in a known bin; elsewhere it does not
    /// fall with the load, and does not grow faster than it.
    pub(crate) fn expected_throughput(&self, load: f64) -> Option<(f64, f64)> {
        let place = index(load);
        let scaled = |bin: &Sums| bin.throughput() * load / bin.mean_load().max(LEAST_LOAD);
        if let Some(bin) = self.bins.get(place).filter(|bin| bin.is_known()) {
            return Some((scaled(bin), scaled(bin)));
        }
        let lower = self.bins.iter().take(place).rev().find(|bin| bin.is_known());
        let upper = self.bins.iter().skip(place + 1).find(|bin| bin.is_known());
        match (lower, upper) {
            (Some(low), Some(high)) => {
                Some((low.throughput(), high.throughput().max(low.throughput()).min(scaled(low))))
            }
            (Some(low), None) => Some((low.throughput(), scaled(low))),
            (None, Some(high)) => Some((scaled(high), high.throughput())),
            (None, None) => None,
        }
    }
}

// === impl StoredBins ===

impl From<LoadCurve> for StoredBins {
    fn from(curve: LoadCurve) -> Self {
        let stored = |bin: &Sums| [bin.seconds, bin.load, bin.completions, bin.time, bin.misses];
        let bins = curve.bins.iter().enumerate().filter(|(_, bin)| bin.has_data());
        Self(bins.map(|(place, bin)| (place, stored(bin))).collect())
    }
}

impl TryFrom<StoredBins> for LoadCurve {
    type Error = NoSuchBin;

    fn try_from(stored: StoredBins) -> Result<Self, NoSuchBin> {
        let mut curve = Self::default();
        for (place, [seconds, load, completions, time, misses]) in stored.0 {
            let bin = curve.bins.get_mut(place).ok_or(NoSuchBin(place))?;
            *bin = Sums { seconds, load, completions, time, misses };
        }
        Ok(curve)
    }
}

fn index(load: f64) -> usize {
    // `as` saturates, and is 0 for NaN.
    (((load / FIRST).log2() * PER_OCTAVE).ceil().max(0.0) as usize).min(BINS - 1)
}

fn ratio(sum: f64, count: f64) -> f64 {
    if count > 0.0 { sum / count } else { 0.0 }
}

/// Whether a number of a stored state, which another process may have written, is usable: sums of
/// it stay finite.
pub(crate) fn is_usable(number: f64) -> bool {
    (0.0..1e15).contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_curve_has_only_bins_with_data() {
        let mut curve = LoadCurve::default();
        let second = Sums { seconds: 4.0, load: 20.0, completions: 400.0, time: 40.5, misses: 3.0 };
        curve.add(&second);
        curve.add(&Sums { seconds: 0.5, load: 50.0, ..second });
        let json = serde_json::to_string(&curve).unwrap();
        assert_eq!(json, "[[18,[4.0,20.0,400.0,40.5,3.0]]]");
        let stored: LoadCurve = serde_json::from_str(&json).unwrap();
        assert!(stored.is_valid());
        assert_eq!(stored.bins.get(18), Some(&second));
        assert_eq!(stored.bins.iter().filter(|bin| bin.has_data()).count(), 1);
    }

    #[test]
    fn rejects_stored_bin_beyond_the_last() {
        let error = serde_json::from_str::<LoadCurve>("[[48,[1.0,1.0,1.0,1.0,1.0]]]").unwrap_err();
        assert!(error.to_string().contains("bin 48"), "{error}");
    }
}
