//! What stands between us and one other activator.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What one peer wants, believes and holds.
#[derive(Clone, Debug)]
pub(super) struct PeerLedger<Pod> {
    /// Requests for which it wants slots.
    pub(super) wants: u32,
    /// Since when its oldest request waits; `None` after we lent it a slot for that one.
    pub(super) oldest: Option<Duration>,
    /// What it believes that we want, or less.
    pub(super) told: u32,
    /// Whether it gave a slot to our oldest request, so that it does not know the age of the next.
    pub(super) outdated: bool,
    /// Our slots that it holds.
    pub(super) lent: BTreeMap<Pod, u32>,
    /// Our pods that it cannot use, by its own word.
    pub(super) refused: BTreeSet<Pod>,
    /// Its pods that we could not use, and have said so.
    pub(super) declined: BTreeSet<Pod>,
}

// === impl PeerLedger ===

impl<Pod> Default for PeerLedger<Pod> {
    fn default() -> Self {
        Self {
            wants: 0,
            oldest: None,
            told: 0,
            outdated: false,
            lent: BTreeMap::new(),
            refused: BTreeSet::new(),
            declined: BTreeSet::new(),
        }
    }
}

impl<Pod: Ord> PeerLedger<Pod> {
    /// Whether it would use a slot on this pod.
    pub(super) fn wants_on(&self, pod: &Pod) -> bool {
        self.wants > 0 && !self.refused.contains(pod)
    }

    /// False if it holds no slot of ours there.
    pub(super) fn take_back(&mut self, pod: &Pod) -> bool {
        let Some(slots) = self.lent.get_mut(pod) else { return false };
        *slots -= 1;
        if *slots == 0 {
            self.lent.remove(pod);
        }
        true
    }
}
