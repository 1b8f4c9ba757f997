//! Slot lending state between this activator and one peer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Wants and loans between this activator and one peer.
#[derive(Clone, Debug)]
pub(super) struct PeerLedger<Pod> {
    /// Requests for which the peer wants slots.
    pub(super) wants: u32,
    /// Since when the peer's oldest request waits; `None` after a slot was lent for that request.
    pub(super) oldest: Option<Duration>,
    /// Lower bound of the own want that the peer currently assumes.
    pub(super) announced: u32,
    /// Whether the peer lent a slot for the oldest own request. It then lacks the age of the next
    /// one.
    pub(super) outdated: bool,
    /// Own slots that are lent to the peer.
    pub(super) lent: BTreeMap<Pod, u32>,
    /// Pods with own slots that the peer has refused.
    pub(super) refused: BTreeSet<Pod>,
    /// Pods with slots of the peer that this activator has refused.
    pub(super) declined: BTreeSet<Pod>,
}

// === impl PeerLedger ===

impl<Pod> Default for PeerLedger<Pod> {
    fn default() -> Self {
        Self {
            wants: 0,
            oldest: None,
            announced: 0,
            outdated: false,
            lent: BTreeMap::new(),
            refused: BTreeSet::new(),
            declined: BTreeSet::new(),
        }
    }
}

impl<Pod: Ord> PeerLedger<Pod> {
    /// Whether the peer wants a slot and can use this pod.
    pub(super) fn wants_on(&self, pod: &Pod) -> bool {
        self.wants > 0 && !self.refused.contains(pod)
    }

    /// Ends the loan of one slot. Returns false if no slot of the pod is lent to the peer.
    pub(super) fn take_back(&mut self, pod: &Pod) -> bool {
        let Some(slots) = self.lent.get_mut(pod) else { return false };
        *slots -= 1;
        if *slots == 0 {
            self.lent.remove(pod);
        }
        true
    }
}
