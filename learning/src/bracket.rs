//! Bracket: the largest target with a good result, and the smallest with a bad one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tuning;

/// A target with its result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tried {
    pub(crate) target: f64,
    /// Its measure divided by the limit: above 1 is bad.
    pub(crate) severity: f64,
    /// Time of the result.
    pub(crate) at: Duration,
}

/// The results of targets in this epoch and regime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bracket {
    pub(crate) good: Option<Tried>,
    pub(crate) bad: Option<Tried>,
    /// The bad target before that one, which is larger.
    #[serde(default)]
    above: Option<Tried>,
}

// === impl Bracket ===

impl Bracket {
    /// Whether the restored results are usable.
    pub(crate) fn is_valid(&self) -> bool {
        let valid = |tried: Tried| tried.target > 0.0 && tried.target.is_finite() && tried.severity >= 0.0;
        [self.good, self.bad, self.above].into_iter().flatten().all(valid)
    }

    /// Records a good target. A bad one below it was bad luck, and the bad one above it still
    /// holds.
    pub(crate) fn record_good(&mut self, tried: Tried) {
        if self.good.is_none_or(|good| tried.target >= good.target || good.severity > 1.0) {
            self.good = Some(tried);
        }
        let is_above = |bad: &Tried| bad.target > tried.target;
        self.bad = self.bad.filter(is_above).or(self.above.filter(is_above));
    }

    /// Records a bad target. A good one above it is not good any more.
    pub(crate) fn record_bad(&mut self, tried: Tried) {
        if self.bad.is_none_or(|bad| tried.target <= bad.target * tuning::bracket::NARROW) {
            self.above = self.bad.filter(|bad| bad.target > tried.target).or(self.above);
            self.bad = Some(tried);
        }
        self.good = self.good.filter(|good| good.target < tried.target);
    }

    /// The bad target, unless its result is too old.
    pub(crate) fn fresh_bad(&self, now: Duration) -> Option<f64> {
        self.bad.filter(|bad| now.saturating_sub(bad.at) < tuning::bracket::VALIDITY).map(|bad| bad.target)
    }

    /// The next smaller target after a bad one. Between good and bad it is where the severity
    /// would be `aim`; without a good one the severity is taken to fall as between the last two
    /// bad targets, or with the square of the target.
    pub(crate) fn below(&self, tried: Tried, aim: f64) -> f64 {
        if let Some(good) = self.good.filter(|good| good.target < tried.target) {
            let floor = good.severity.max(1e-3);
            let span = (tried.severity / floor).ln().max(0.1);
            let way =
                ((aim / floor).ln() / span).clamp(tuning::bracket::LEAST_WAY, tuning::bracket::MOST_WAY);
            return good.target * (tried.target / good.target).powf(way);
        }
        let factor = (aim / tried.severity).powf(1.0 / self.power(tried));
        tried.target * factor.clamp(tuning::bracket::LEAST_FACTOR, tuning::bracket::MOST_FACTOR)
    }

    /// The power of the target with which the severity grows above a bad target.
    fn power(&self, tried: Tried) -> f64 {
        let is_apart = |bad: &Tried| bad.target > tried.target * tuning::bracket::APART;
        self.bad.filter(is_apart).map_or(tuning::bracket::POWER, |bad| {
            let power = (bad.severity / tried.severity).ln() / (bad.target / tried.target).ln();
            power.clamp(tuning::bracket::LEAST_POWER, tuning::bracket::MOST_POWER)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(target: f64) -> Tried {
        Tried { target, severity: 1.0, at: Duration::ZERO }
    }

    #[test]
    fn bad_target_stays_known_after_a_smaller_one_proved_good() {
        let mut bracket = Bracket::default();
        for bad in [32.0, 10.0, 8.0] {
            bracket.record_bad(tried(bad));
        }
        bracket.record_good(tried(8.0));
        assert_eq!(bracket.fresh_bad(Duration::ZERO), Some(10.0));
        bracket.record_good(tried(11.0));
        assert_eq!(bracket.fresh_bad(Duration::ZERO), None);
    }
}
