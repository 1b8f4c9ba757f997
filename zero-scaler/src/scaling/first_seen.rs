//! FirstSeen: since when this process has observed the conditions of each workload, by its
//! monotonic clock.
//!
//! The times in conditions are by the wall clock of the process that wrote them. If that clock was
//! behind, or this one jumps forward, a grace period would be over at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use autoscaler::Key;
use parking_lot::Mutex;

/// Upper bound of the workloads with a time. Others go to zero late.
const MAX_WORKLOADS: usize = 100_000;

/// The conditions of all workloads.
#[derive(Debug, Default)]
pub struct FirstSeen(Mutex<HashMap<Key, [SeenTime; 2]>>);

/// A time in a condition, and when this process first observed it.
#[derive(Clone, Copy, Debug)]
struct SeenTime {
    time: Option<i64>,
    at: Instant,
}

// === impl FirstSeen ===

impl FirstSeen {
    /// For how long each of the times of a workload was observed until `now`.
    pub fn update(&self, key: &Key, times: [Option<i64>; 2], now: Instant) -> [Duration; 2] {
        let mut workloads = self.0.lock();
        let new = times.map(|time| SeenTime { time, at: now });
        if workloads.len() >= MAX_WORKLOADS && !workloads.contains_key(key) {
            return [Duration::ZERO; 2];
        }
        let seen = workloads.entry(key.clone()).or_insert(new);
        for (seen, new) in seen.iter_mut().zip(new) {
            if seen.time != new.time {
                *seen = new;
            }
        }
        seen.map(|seen| now.saturating_duration_since(seen.at))
    }

    /// Drops the workloads for which `exists` is false. Call it periodically.
    pub fn prune(&self, exists: impl Fn(&Key) -> bool) {
        self.0.lock().retain(|key, _| exists(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_time_is_seen_anew() {
        let (seen, key) = (FirstSeen::default(), Key::new("shop", "web"));
        let start = tokio::time::Instant::now().into_std();
        let at = |second, times| {
            let seen = seen.update(&key, times, start + Duration::from_secs(second));
            seen.map(|seen| seen.as_secs())
        };
        assert_eq!(at(0, [Some(7), None]), [0, 0], "whatever the times are");
        assert_eq!(at(5, [Some(7), Some(3)]), [5, 0]);
        assert_eq!(at(9, [Some(8), Some(3)]), [0, 4]);
    }
}
