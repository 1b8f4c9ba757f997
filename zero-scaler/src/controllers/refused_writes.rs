//! RefusedWrites: writes that the API server refuses, of the objects of one reconciler. They are
//! retried more and more rarely, and reported as an event on the object.
//!
//! Input: failed reconciles. A refusal is an answer about the object: by a quota, an admission
//! policy, a webhook, or validation. An outage is none.

use std::collections::HashMap;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::findings::Problem;
use kube::Resource;
use parking_lot::Mutex;

use crate::kubernetes::event_deduplicator::EventDeduplicator;
use crate::kubernetes::events::Events;
use crate::kubernetes::reasons::Reason;

/// The longest delay of a retry.
const LAST_DELAY: Duration = Duration::from_secs(300);
/// Interval at which the event of a write that is still refused is repeated.
const REPEAT_EVENT: Duration = Duration::from_secs(1800);
/// Upper bound of the objects with a refusal.
const MAX_OBJECTS: usize = 10_000;

/// The refused writes of one reconciler.
#[derive(Debug, Default)]
pub(super) struct RefusedWrites {
    delays: Mutex<HashMap<Key, Duration>>,
    events: EventDeduplicator,
}

// === impl RefusedWrites ===

impl RefusedWrites {
    /// Records a refusal; returns when to retry, `first` after the first one.
    pub(super) fn refused<K: Resource<DynamicType = ()>>(
        &self,
        key: &Key,
        object: &K,
        message: &str,
        first: Duration,
        events: &Events,
    ) -> Duration {
        let problem = Problem::with_usual_fix(Reason::WriteRefused, message);
        if self.events.is_due(key, message, REPEAT_EVENT) {
            events.warning(object, problem.reason, problem.message());
        }
        let mut delays = self.delays.lock();
        if delays.len() >= MAX_OBJECTS && !delays.contains_key(key) {
            delays.clear();
        }
        let delay = delays.get(key).map_or(first, |last| (*last * 2).min(LAST_DELAY));
        delays.insert(key.clone(), delay);
        delay
    }

    /// Records that nothing is refused any more.
    pub(super) fn accepted(&self, key: &Key) {
        if self.delays.lock().remove(key).is_some() {
            self.events.is_new(key, "");
        }
    }
}
