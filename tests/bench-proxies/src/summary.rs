//! The middle of a few repeated measurements, and how far apart they were.

/// Of at least one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) greatest: f64,
}

// === impl Summary ===

impl Summary {
    /// `None` of no values.
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

    /// Half of the range, as a share of the median.
    pub(crate) fn spread(self) -> f64 {
        (self.greatest - self.least) / 2.0 / self.median
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_between_the_two_in_the_middle() {
        assert_eq!(Summary::of([3.0, 1.0, 9.0]), Some(Summary { median: 3.0, least: 1.0, greatest: 9.0 }));
        assert_eq!(Summary::of([4.0, 1.0, 9.0, 3.0]).unwrap().median, 3.5);
        assert_eq!(Summary::of([7.0]).unwrap().median, 7.0);
        assert_eq!(Summary::of([]), None);
    }

    #[test]
    fn the_spread_is_plus_and_minus() {
        assert_eq!(Summary::of([90.0, 110.0, 100.0]).unwrap().spread(), 0.1);
    }
}
