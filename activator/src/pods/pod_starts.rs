//! PodStarts: when this process first saw the newest pods of a workload, before they had an
//! address.
//!
//! Written from the watch of pods, read by the [trace of a cold start](crate::reports::cold_start).
//! Times are by this process's clock, exact to the delay of the watch; the timestamps of the
//! objects are whole seconds.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Pods that are kept. With more starts at a time, the trace of a single one matters little.
const MAX_PODS: usize = 32;

/// The newest pods of a workload.
#[derive(Debug, Default)]
pub struct PodStarts {
    newest: Mutex<VecDeque<(String, PodStart)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodStart {
    /// The object was seen.
    pub appeared: Instant,
    /// The object had a node.
    pub scheduled: Option<Instant>,
}

// === impl PodStarts ===

impl PodStarts {
    /// Notes a pod without an address; `scheduled` if it has a node.
    pub fn seen(&self, uid: &str, scheduled: bool, now: Instant) {
        let mut newest = self.newest.lock();
        if let Some((_, start)) = newest.iter_mut().find(|(seen, _)| seen == uid) {
            start.scheduled = start.scheduled.or(scheduled.then_some(now));
            return;
        }
        if newest.len() >= MAX_PODS {
            newest.pop_front();
        }
        newest.push_back((uid.to_owned(), PodStart { appeared: now, scheduled: scheduled.then_some(now) }));
    }

    /// The start of the pod with this uid, if it was seen without an address.
    pub fn of(&self, uid: &str) -> Option<PodStart> {
        let newest = self.newest.lock();
        newest.iter().find(|(seen, _)| seen == uid).map(|(_, start)| *start)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn keeps_first_time_of_a_pod_and_evicts_the_oldest_pod() {
        let (starts, start) = (PodStarts::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (second, scheduled) in [(0, false), (1, true), (2, true)] {
            starts.seen("a", scheduled, at(second));
        }
        assert_eq!(starts.of("a"), Some(PodStart { appeared: at(0), scheduled: Some(at(1)) }));
        (0..MAX_PODS).for_each(|i| starts.seen(&i.to_string(), false, at(3)));
        assert_eq!(starts.of("a"), None);
    }
}
