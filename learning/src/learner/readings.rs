//! Readings: the share of a limit that pods use at each load, as a straight line. Its slope is what
//! a request costs.
//!
//! Readings come each 15 s and are up to a minute old. The two kinds of lines have the loads that
//! theirs are compared with.

pub(super) mod cpu_line;
pub(super) mod memory_line;
pub(super) mod throughputs;

use serde::{Deserialize, Serialize};

use crate::curve::is_usable;
use crate::tuning;

/// Sums of readings and of their loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ReadingLine {
    readings: f64,
    loads: f64,
    shares: f64,
    load_squares: f64,
    share_squares: f64,
    products: f64,
    /// The smallest reading.
    least: Option<f64>,
}

/// A straight line through the mean of all readings, by least squares.
#[derive(Clone, Copy, Debug)]
struct Fit {
    slope: f64,
    /// Standard deviation of the slope, and of a reading.
    deviation: f64,
    spread: f64,
}

// === impl ReadingLine ===

impl ReadingLine {
    /// Whether the restored sums are usable.
    fn is_valid(&self) -> bool {
        let sums =
            [self.readings, self.loads, self.shares, self.load_squares, self.share_squares, self.products];
        sums.into_iter().chain(self.least).all(is_usable)
    }

    /// Adds a reading of one pod at this load, as a share of its limit.
    fn add(&mut self, load: f64, share: f64) {
        self.readings += 1.0;
        self.loads += load;
        self.shares += share;
        self.load_squares += load * load;
        self.share_squares += share * share;
        self.products += load * share;
        self.least = Some(self.least.map_or(share, |least| least.min(share)));
    }

    /// Multiplies the weight of the past.
    fn decay(&mut self, factor: f64) {
        self.readings *= factor;
        self.loads *= factor;
        self.shares *= factor;
        self.load_squares *= factor;
        self.share_squares *= factor;
        self.products *= factor;
    }

    /// Mean load and mean share of the readings; `None` without one.
    fn mean(&self) -> Option<(f64, f64)> {
        (self.readings >= 1.0).then(|| (self.loads / self.readings, self.shares / self.readings))
    }

    /// The most that a request surely costs: `most`, within the error of the slope.
    fn sure_slope(&self, most: f64) -> f64 {
        self.fit().map_or(most, |fit| {
            let error = tuning::evidence::SURE * fit.deviation;
            most.max(fit.slope - error).min(fit.slope + error)
        })
    }

    /// The least that a request may cost. `None` without a sure slope: what does not depend on the
    /// load needs no further pods.
    fn possible_slope(&self) -> Option<f64> {
        let fit = self.fit()?;
        let slope = fit.slope - tuning::evidence::SURE * fit.deviation;
        (slope > 0.0).then_some(slope)
    }

    fn fit(&self) -> Option<Fit> {
        let (load, share) = self.mean()?;
        let loads = self.load_squares - self.readings * load * load;
        if self.readings < tuning::readings::SLOPE_READINGS || loads <= 1e-6 * self.load_squares {
            return None;
        }
        let products = self.products - self.readings * load * share;
        let slope = products / loads;
        let rest = (self.share_squares - self.readings * share * share - slope * products).max(0.0);
        let spread = (rest / (self.readings - 2.0)).sqrt();
        let deviation = spread / loads.sqrt();
        (slope.is_finite() && deviation.is_finite()).then_some(Fit { slope, deviation, spread })
    }
}
