//! Delays between retries: each twice the one before, up to a bound.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// Doublings after which every delay in use has reached its bound.
const MAX_DOUBLINGS: u32 = 16;

/// The delays before retries, without end. Each is shortened at random by up to a half, so that
/// replicas do not retry at the same moment.
pub fn delays(first: Duration, longest: Duration) -> impl Iterator<Item = Duration> + Send {
    // backon's jitter lengthens a delay up to twice.
    exponential(first / 2, longest / 2).with_jitter().build()
}

/// The delay after `failures` earlier failures, for callers that count them. Without jitter.
pub fn delay_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    let skipped = failures.min(MAX_DOUBLINGS) as usize;
    exponential(first, longest).build().nth(skipped).unwrap_or(longest)
}

/// The same, shortened as one of [`delays`].
pub fn jittered_delay_after(failures: u32, first: Duration, longest: Duration) -> Duration {
    let skipped = failures.min(MAX_DOUBLINGS) as usize;
    delays(first, longest).nth(skipped).unwrap_or(longest)
}

fn exponential(first: Duration, longest: Duration) -> ExponentialBuilder {
    ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_its_bound() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(30));
        for (failures, seconds) in [(0, 1), (1, 2), (4, 16), (5, 30), (u32::MAX, 30)] {
            assert_eq!(delay_after(failures, first, longest), Duration::from_secs(seconds), "{failures}");
        }
    }

    #[test]
    fn jitter_shortens_delay_by_at_most_a_half() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let bounds = [100, 200, 400, 800, 1000, 1000].map(Duration::from_millis);
        for (delay, bound) in delays(first, longest).zip(bounds) {
            assert!(delay >= bound / 2 && delay <= bound, "{delay:?} of {bound:?}");
        }
    }
}
