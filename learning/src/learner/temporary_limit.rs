//! TemporaryLimit: how many requests a pod may have at a time, for some minutes after a kill.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::tuning;

/// A limit of the requests in a pod. A lone pod that was killed gets all requests that were held
/// until it is ready again, whatever the target is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TemporaryLimit {
    /// Requests that a pod may have at a time.
    pub(super) requests: u32,
    until: Duration,
}

// === impl TemporaryLimit ===

impl TemporaryLimit {
    /// A limit that begins now.
    pub(super) fn new(requests: u32, now: Duration) -> Self {
        Self { requests, until: now.saturating_add(tuning::memory::LIMITED) }
    }

    /// The same time with another number of requests.
    pub(super) fn with_requests(self, requests: u32) -> Self {
        Self { requests, ..self }
    }

    pub(super) fn holds(&self, now: Duration) -> bool {
        now < self.until
    }

    /// A stored limit. It ends as soon as one that begins now, whatever the stored clock was.
    pub(super) fn restored(self, now: Duration) -> Self {
        Self { until: self.until.min(Self::new(self.requests, now).until), ..self }
    }
}
