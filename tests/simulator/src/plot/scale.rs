//! Scale: places of values between two powers of two. Targets, pods and latencies of runs that
//! converge differ by factors.

/// Smallest and largest value: nothing beyond them has a place of its own.
const LEAST: f64 = 1.0 / 1024.0;
const MOST: f64 = 1e6;

/// A logarithmic scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// Exponents of the lowest and the highest value.
    least: i32,
    most: i32,
}

// === impl Scale ===

impl Scale {
    /// The scale of these values, with at least one octave.
    pub(super) fn of(values: impl Iterator<Item = f64>) -> Self {
        let all: Vec<f64> = values.map(exponent).collect();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if all.is_empty() { (0.0, 1.0) } else { (least.floor(), most.ceil()) };
        // Between the values of `LEAST` and `MOST`.
        Self { least: least as i32, most: (most as i32).max(least as i32 + 1) }
    }

    /// The place of a value, from 0 (lowest) to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let span = f64::from(self.most - self.least);
        ((exponent(value) - f64::from(self.least)) / span).clamp(0.0, 1.0)
    }

    /// Values of the grid: powers of two, at most about six of them.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let step = (self.most - self.least).unsigned_abs().div_ceil(6).max(1);
        (self.least..=self.most).step_by(step as usize).map(|exponent| 2.0_f64.powi(exponent))
    }
}

fn exponent(value: f64) -> f64 {
    if value.is_nan() { LEAST.log2() } else { value.clamp(LEAST, MOST).log2() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_spans_all_values_with_powers_of_two() {
        let scale = Scale::of([3.0, 5.0, 30.0].into_iter());
        assert_eq!(scale.ticks().collect::<Vec<_>>(), [2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!([2.0, 8.0, 32.0, 64.0].map(|value| scale.place(value)), [0.0, 0.5, 1.0, 1.0]);
    }

    #[test]
    fn any_values_have_a_scale() {
        for values in [vec![], vec![4.0], vec![0.0, f64::NAN], vec![f64::INFINITY]] {
            let scale = Scale::of(values.iter().copied());
            assert!(scale.ticks().count() <= 8, "{values:?}");
            assert!((0.0..=1.0).contains(&scale.place(1.0)), "{values:?}");
        }
    }
}
