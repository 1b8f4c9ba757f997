//! The range of plausible numbers in statistics.

/// Largest plausible value. No process has 10⁹ concurrent requests, and sums of such numbers would
/// displace small ones from a float's precision for the rest of a window.
const MAX_PLAUSIBLE: f64 = 1e9;

/// Whether `value` is from 0 to 10⁹.
pub fn is_plausible(value: f64) -> bool {
    (0.0..=MAX_PLAUSIBLE).contains(&value)
}
