//! Summary: median and range of repeated measurements.

/// Median and range of at least one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

// === impl Summary ===

impl Summary {
    /// `None` if there are no values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<_> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let below = sorted.get(sorted.len().saturating_sub(1) / 2)?;
        let above = sorted.get(sorted.len() / 2)?;
        Some(Self {
            median: f64::midpoint(*below, *above),
            least: *sorted.first()?,
            greatest: *sorted.last()?,
        })
    }

    /// Half of the range, relative to the median.
    pub(crate) fn spread(self) -> f64 {
        (self.greatest - self.least) / 2.0 / self.median
    }
}

/// The cell of a median; empty without values.
pub(crate) fn median(summary: Option<Summary>, format: impl Fn(f64) -> String) -> String {
    summary.map(|summary| format(summary.median)).unwrap_or_default()
}

/// The cell of a spread; empty without values.
pub(crate) fn spread(summary: Option<Summary>) -> String {
    summary.map(|summary| format!("{:.0} %", summary.spread() * 100.0)).unwrap_or_default()
}

/// Formats a ratio.
pub(crate) fn two_digits(ratio: f64) -> String {
    format!("{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_an_even_count_is_the_mean_of_the_middle_values() {
        assert_eq!(Summary::of([3.0, 1.0, 9.0]), Some(Summary { median: 3.0, least: 1.0, greatest: 9.0 }));
        assert_eq!(Summary::of([4.0, 1.0, 9.0, 3.0]).unwrap().median, 3.5);
        assert_eq!(Summary::of([7.0]).unwrap().median, 7.0);
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn spread_is_half_of_the_range() {
        assert_eq!(Summary::of([90.0, 110.0, 100.0]).unwrap().spread(), 0.1);
    }
}
