//! Number of pods for a metric value (replica_calculator.go, External with an `averageValue`).

/// A metric's value in thousandths.
pub type MetricValue = Result<i64, NoMetric>;

/// The metric could not be read: an error of the API, or a list without items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no metrics returned from external metrics API")]
pub struct NoMetric;

/// Allowed deviation of the usage ratio from 1 without a change of size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Upwards.
    pub up: f64,
    /// Downwards.
    pub down: f64,
}

// === impl Tolerances ===

impl Default for Tolerances {
    /// Default of the controller's flag.
    fn default() -> Self {
        Self { up: 0.1, down: 0.1 }
    }
}

impl Tolerances {
    /// Inclusive on both sides; infinity and NaN are outside.
    fn contains(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The sum of a metric's items, all in thousandths.
///
/// # Errors
/// [`NoMetric`] for an empty list.
pub fn sum(items: &[i64]) -> MetricValue {
    if items.is_empty() {
        return Err(NoMetric);
    }
    Ok(items.iter().fold(0, |sum: i64, item| sum.saturating_add(*item)))
}

/// Pods for `usage` at `target` each; `status` if the ratio is within the tolerances.
pub fn proposal(usage: i64, target: i64, status: i32, tolerances: Tolerances) -> i32 {
    let (usage, target) = (usage as f64, target as f64);
    if tolerances.contains(usage / (target * f64::from(status))) {
        return status;
    }
    // `as` saturates.
    (usage / target).ceil() as i32
}
