//! RateBound: so many traces in each second. A client that marks all its requests as sampled gets
//! no more.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;

/// Bounds the traces that begin in one second.
#[derive(Debug)]
pub(super) struct RateBound {
    per_second: NonZeroU32,
    start: Instant,
    /// The second since `start` in the upper half, the traces in it in the lower one.
    used: AtomicU64,
}

// === impl RateBound ===

impl RateBound {
    /// A bound. Its first second begins at `start`.
    pub(super) fn new(per_second: NonZeroU32, start: Instant) -> Self {
        Self { per_second, start, used: AtomicU64::new(0) }
    }

    /// Takes one trace; false if the second has no more.
    pub(super) fn try_take(&self, now: Instant) -> bool {
        let second = now.saturating_duration_since(self.start).as_secs() << 32;
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            // A thread with an earlier second takes from the later one.
            let current = used.max(second);
            if current & u64::from(u32::MAX) >= u64::from(self.per_second.get()) {
                return false;
            }
            match self.used.compare_exchange_weak(used, current + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(changed) => used = changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_second_has_its_traces() {
        let start = Instant::now();
        let bound = RateBound::new(NonZeroU32::new(2).unwrap(), start);
        let take = |ms| bound.try_take(start + Duration::from_millis(ms));
        assert_eq!([0, 10, 999].map(take), [true, true, false]);
        assert_eq!([1000, 500, 1500, 7000].map(take), [true, true, false, true]);
    }
}
