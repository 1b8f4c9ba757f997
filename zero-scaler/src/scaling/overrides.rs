//! Sizes written ahead of the HPA, and whether somebody takes them back.
//!
//! While the decider panics we write `/scale` ourselves, after the metric was raised. An HPA that computed its size before
//! may still write it over ours once; then ours is written again, but not at the pace of a fight. If it keeps
//! happening, somebody else scales the workload, and people must be told.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::{Mutex, MutexGuard};

/// Time between writes of the same size.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);
/// How often one size may be taken back before it is said.
const TOLERATED: u32 = 2;
/// Workloads that may panic at a time and be remembered.
const MOST: usize = 100_000;

/// The sizes of workloads that are panicking.
#[derive(Debug, Default)]
pub struct Overrides(Mutex<HashMap<Key, Override>>);

#[derive(Clone, Copy, Debug)]
struct Override {
    size: i32,
    written: Instant,
    taken_back: u32,
}

// === impl Overrides ===

impl Overrides {
    /// Whether `size` may be written now, where the target was seen smaller than that.
    pub(crate) fn may_write(&self, key: &Key, size: i32, now: Instant) -> bool {
        let overrides = self.lock();
        let known = overrides.get(key);
        known.is_none_or(|known| size > known.size || now.saturating_duration_since(known.written) >= PAUSE)
    }

    /// It was written; whether that was once too often.
    pub(crate) fn wrote(&self, key: &Key, size: i32, now: Instant) -> bool {
        let mut overrides = self.lock();
        let Some(known) = overrides.get_mut(key) else {
            if overrides.len() < MOST {
                overrides.insert(key.clone(), Override { size, written: now, taken_back: 0 });
            }
            return false;
        };
        let again = size <= known.size;
        *known = Override { size, written: now, taken_back: known.taken_back + u32::from(again) };
        again && known.taken_back == TOLERATED + 1
    }

    /// The panic is over.
    pub(crate) fn end(&self, key: &Key) {
        self.lock().remove(key);
    }

    /// Forgets workloads that are gone; to be called now and then.
    pub(crate) fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.lock().retain(|key, _| exists(key));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Override>> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn growth_is_written_at_once_and_repetition_slowly() {
        let (overrides, key) = (Overrides::default(), Key::new("shop", "web"));
        let start = crate::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        // Whether it is written then, and told.
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
    async fn a_write_that_failed_is_tried_again_at_once_and_was_taken_back_by_nobody() {
        let (overrides, key) = (Overrides::default(), Key::new("shop", "web"));
        let now = crate::clock::now();
        for _refused in 0..3 {
            assert!(overrides.may_write(&key, 10, now));
        }
        assert!(!overrides.wrote(&key, 10, now));
    }
}
