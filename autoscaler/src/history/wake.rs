//! Wake: what the first held request of a workload at zero waited for, as its activator saw it.

use serde::{Deserialize, Serialize};

/// Longest wake that is accepted, in milliseconds: as long as the history.
const MAX_MS: u32 = 3_600_000;
/// How far another machine's clock may be ahead, in milliseconds.
const MAX_AHEAD_MS: i64 = 60_000;

/// One wake. All times but `received` are milliseconds after it; `None` was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wake {
    /// Unix milliseconds at which the request was received.
    pub received: i64,
    /// The activator's report was sent.
    #[serde(default)]
    pub reported: Option<u32>,
    /// The pod's object was seen.
    #[serde(default)]
    pub created: Option<u32>,
    /// The pod had a node.
    #[serde(default)]
    pub scheduled: Option<u32>,
    /// The pod had an address.
    pub started: u32,
    /// The pod was verified to take requests.
    pub verified: u32,
    /// The request was sent to the pod.
    pub forwarded: u32,
    /// The response began.
    pub answered: u32,
}

// === impl Wake ===

impl Wake {
    /// Whether it can have ended before `now`, in Unix milliseconds, and its end has an order.
    pub fn is_plausible(&self, now: i64) -> bool {
        let age = now.saturating_sub(self.received);
        (-MAX_AHEAD_MS..=i64::from(MAX_MS)).contains(&age)
            && self.forwarded <= self.answered
            && [self.started, self.verified, self.answered].iter().all(|&ms| ms <= MAX_MS)
            && [self.reported, self.created, self.scheduled].iter().flatten().all(|&ms| ms <= MAX_MS)
    }

    /// Whether both requests were held at the same time.
    pub fn overlaps(&self, other: &Self) -> bool {
        let end = |wake: &Self| wake.received.saturating_add(wake.forwarded.into());
        self.received <= end(other) && other.received <= end(self)
    }
}
