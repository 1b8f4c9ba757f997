//! Numbers of a stored state, which another process may have written.

/// Whether a stored sum or mean is usable: sums of it stay finite.
pub(crate) fn is_usable(number: f64) -> bool {
    (0.0..1e15).contains(&number)
}
