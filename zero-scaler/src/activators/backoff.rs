//! Backoff: how long to wait before what failed is tried again, twice as long after each failure.
//!
//! Input: how often it has failed, from whoever counts that. Used where activators are asked, beside looks and in them; watches have
//! their own, with jitter.

use std::time::Duration;

/// Doublings after which any pause is at its longest; more could not be shifted.
const MOST_DOUBLINGS: u32 = 16;

/// The pause after `failures` earlier ones: `first` if there was none, and never more than `longest`.
pub(crate) fn after(failures: u32, first: Duration, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(MOST_DOUBLINGS)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_until_it_is_at_its_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        for (failures, seconds) in [(0, 1), (1, 2), (4, 16), (5, 30), (u32::MAX, 30)] {
            assert_eq!(after(failures, first, longest), Duration::from_secs(seconds), "{failures}");
        }
    }
}
