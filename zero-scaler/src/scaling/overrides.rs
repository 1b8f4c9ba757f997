//! Limits the sizes that are written ahead of the HPA in a panic, and detects another writer.
//!
//! In a panic the PodAutoscaler reconciler writes `/scale` itself, after the metric has grown. An
//! HPA that computed its size earlier may overwrite it once. The size is then written again, at
//! most once per [`REWRITE_INTERVAL`]. If the size is reverted repeatedly, another controller
//! scales the target, and the reconciler publishes event `ScaleConflict`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::Mutex;

/// Least time between writes of the same size.
pub(crate) const REWRITE_INTERVAL: Duration = Duration::from_secs(2);
/// Reverts of one size before a conflict is reported: one stale write of the HPA, and a spare.
const TOLERATED_REVERTS: u32 = 2;
/// Bound of the map. Further workloads are written without this limit.
const MAX_TRACKED: usize = 100_000;

/// The sizes last written for workloads in a panic.
#[derive(Debug, Default)]
pub struct Overrides(Mutex<HashMap<Key, Override>>);

#[derive(Clone, Copy, Debug)]
struct Override {
    size: i32,
    written: Instant,
    reverts: u32,
}

// === impl Overrides ===

impl Overrides {
    /// Whether `size` may be written now. The target's replica count must be smaller.
    pub(crate) fn may_write(&self, key: &Key, size: i32, now: Instant) -> bool {
        let overrides = self.0.lock();
        let last = overrides.get(key);
        last.is_none_or(|last| {
            size > last.size || now.saturating_duration_since(last.written) >= REWRITE_INTERVAL
        })
    }

    /// Records a successful write. True once per panic, when the size was reverted too often.
    pub(crate) fn wrote(&self, key: &Key, size: i32, now: Instant) -> bool {
        let mut overrides = self.0.lock();
        let Some(last) = overrides.get_mut(key) else {
            if overrides.len() < MAX_TRACKED {
                overrides.insert(key.clone(), Override { size, written: now, reverts: 0 });
            }
            return false;
        };
        let is_repeated = size <= last.size;
        *last = Override { size, written: now, reverts: last.reverts + u32::from(is_repeated) };
        is_repeated && last.reverts == TOLERATED_REVERTS + 1
    }

    /// Ends a panic.
    pub(crate) fn end(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    /// Drops workloads that no longer exist. Call it periodically.
    pub(crate) fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| exists(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writes_growth_at_once_and_limits_repeated_writes() {
        let (overrides, key) = (Overrides::default(), Key::new("shop", "web"));
        let start = crate::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // `None` if the write is not allowed, else whether a conflict is reported.
        let write = |size, seconds| {
            let may = overrides.may_write(&key, size, at(seconds));
            may.then(|| overrides.wrote(&key, size, at(seconds)))
        };
        assert_eq!(write(10, 0), Some(false));
        assert_eq!(write(10, 0), None);
        assert_eq!(write(20, 0), Some(false));
        assert_eq!(write(20, 1), None);
        assert_eq!(write(20, 2), Some(false));
        assert_eq!(write(20, 4), Some(false));
        assert_eq!(write(20, 6), Some(true));
        assert_eq!(write(20, 8), Some(false));
        overrides.end(&key);
        assert_eq!(write(5, 8), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn retries_failed_write_at_once_without_counting_a_revert() {
        let (overrides, key) = (Overrides::default(), Key::new("shop", "web"));
        let now = crate::clock::now();
        for _failed_write in 0..3 {
            assert!(overrides.may_write(&key, 10, now));
        }
        assert!(!overrides.wrote(&key, 10, now));
    }
}
