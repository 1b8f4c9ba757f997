//! PodStarts: when this process saw the newest pods of a workload come, before they had an address.
//!
//! Told by the watch of pods, read by the [trace of a cold start](crate::cold_start). Times are those of our own clock, which
//! are exact to the delay of the watch; the objects' own are whole seconds.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Pods that are remembered. Whoever starts more at a time does not look for the single one.
const MOST: usize = 32;

/// The newest pods.
#[derive(Debug, Default)]
pub struct PodStarts {
    newest: Mutex<VecDeque<(String, PodStart)>>,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// There was an object.
    pub appeared: Instant,
    /// It had a node.
    pub scheduled: Option<Instant>,
}

// === impl PodStarts ===

impl PodStarts {
    /// A pod without an address was seen, on a node or not yet.
    pub fn seen(&self, uid: &str, scheduled: bool, now: Instant) {
        let mut newest = self.newest.lock();
        if let Some((_, start)) = newest.iter_mut().find(|(known, _)| known == uid) {
            start.scheduled = start.scheduled.or(scheduled.then_some(now));
            return;
        }
        if newest.len() >= MOST {
            newest.pop_front();
        }
        newest.push_back((uid.to_owned(), PodStart { appeared: now, scheduled: scheduled.then_some(now) }));
    }

    /// When a pod was seen, if it was on its way then.
    pub fn of(&self, uid: &str) -> Option<PodStart> {
        let newest = self.newest.lock();
        newest.iter().find(|(known, _)| known == uid).map(|(_, start)| *start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_time_counts_and_the_oldest_pod_is_forgotten() {
        let (starts, start) = (PodStarts::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, scheduled) in [(0, false), (1, true), (2, true)] {
            starts.seen("a", scheduled, at(second));
        }
        assert_eq!(starts.of("a"), Some(PodStart { appeared: at(0), scheduled: Some(at(1)) }));
        (0..MOST).for_each(|i| starts.seen(&i.to_string(), false, at(3)));
        assert_eq!(starts.of("a"), None);
    }
}
