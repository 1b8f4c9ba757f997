//! Sizes written ahead of the HPA, and whether somebody takes them back.
//!
//! While the decider panics we write `/scale` ourselves, after the metric was raised. An HPA that computed its size before
//! may still write it over ours once; then ours is written again, but not at the pace of a fight. If it keeps
//! happening, somebody else scales the workload, and people must be told.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use autoscaler::Key;

/// Time between writes of the same size.
pub(super) const PAUSE: Duration = Duration::from_secs(2);
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

/// Whether a size may be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Write,
    /// Yes, and it was taken back once too often: say so.
    WriteAndTell,
    /// Not yet.
    Later,
}

// === impl Overrides ===

impl Overrides {
    /// Asks for a write of `size`, where the target was seen smaller than that.
    pub(super) fn admit(&self, key: &Key, size: i32, now: Instant) -> Admission {
        let mut overrides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = overrides.get_mut(key) else {
            if overrides.len() < MOST {
                overrides.insert(key.clone(), Override { size, written: now, taken_back: 0 });
            }
            return Admission::Write;
        };
        if size > known.size {
            *known = Override { size, written: now, ..*known };
            return Admission::Write;
        }
        if now.saturating_duration_since(known.written) < PAUSE {
            return Admission::Later;
        }
        *known = Override { size, written: now, taken_back: known.taken_back + 1 };
        if known.taken_back == TOLERATED + 1 { Admission::WriteAndTell } else { Admission::Write }
    }

    /// The panic is over.
    pub(super) fn end(&self, key: &Key) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn growth_is_written_at_once_and_repetition_slowly() {
        let (overrides, key) = (Overrides::default(), Key::new("shop", "web"));
        let start = crate::context::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(overrides.admit(&key, 10, at(0)), Admission::Write);
        assert_eq!(overrides.admit(&key, 10, at(0)), Admission::Later);
        assert_eq!(overrides.admit(&key, 20, at(0)), Admission::Write);
        assert_eq!(overrides.admit(&key, 20, at(1)), Admission::Later);
        assert_eq!(overrides.admit(&key, 20, at(2)), Admission::Write);
        assert_eq!(overrides.admit(&key, 20, at(4)), Admission::Write);
        assert_eq!(overrides.admit(&key, 20, at(6)), Admission::WriteAndTell);
        assert_eq!(overrides.admit(&key, 20, at(8)), Admission::Write);
        overrides.end(&key);
        assert_eq!(overrides.admit(&key, 5, at(8)), Admission::Write);
    }
}
