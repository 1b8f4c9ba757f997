//! The slots that belong to one activator: which are in use, which are lent, and which may be taken.
//!
//! A pod that cannot be reached from here is set aside. Its slots are still ours, and others who reach it may borrow them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Our slots, by pod.
#[derive(Clone, Debug)]
pub(super) struct OwnSlots<Pod> {
    by_pod: BTreeMap<Pod, Own>,
    /// Pods to which requests may go from here, whoever owns their slots.
    usable: BTreeSet<Pod>,
    /// Usable pods with a free slot of ours.
    free: BTreeSet<Pod>,
    /// Other pods with a free slot of ours.
    aside: BTreeSet<Pod>,
}

/// Our slots on one pod.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// By the assignment.
    slots: u32,
    used: u32,
    lent: u32,
}

// === impl OwnSlots ===

impl<Pod> Default for OwnSlots<Pod> {
    fn default() -> Self {
        Self {
            by_pod: BTreeMap::new(),
            usable: BTreeSet::new(),
            free: BTreeSet::new(),
            aside: BTreeSet::new(),
        }
    }
}

impl<Pod: Ord + Clone> OwnSlots<Pod> {
    /// Takes in a new assignment. What is used or lent stays so.
    pub(super) fn set_share(&mut self, share: impl IntoIterator<Item = (Pod, u32)>) {
        for own in self.by_pod.values_mut() {
            own.slots = 0;
        }
        for (pod, slots) in share {
            self.by_pod.entry(pod).or_default().slots = slots;
        }
        self.by_pod.retain(|_, own| !own.is_nothing());
        self.sort_free();
    }

    /// Takes in which pods are usable, and gives those that were not, and those that are no more.
    pub(super) fn set_usable(&mut self, pods: BTreeSet<Pod>) -> (Vec<Pod>, Vec<Pod>) {
        let before = std::mem::replace(&mut self.usable, pods);
        self.sort_free();
        let new = self.usable.difference(&before).cloned().collect();
        (new, before.difference(&self.usable).cloned().collect())
    }

    pub(super) fn is_usable(&self, pod: &Pod) -> bool {
        self.usable.contains(pod)
    }

    /// Whether any slot of this pod is ours.
    pub(super) fn has(&self, pod: &Pod) -> bool {
        self.by_pod.contains_key(pod)
    }

    /// Usable pods with a free slot, in order.
    pub(super) fn free(&self) -> &BTreeSet<Pod> {
        &self.free
    }

    /// Pods set aside with a free slot, in order.
    pub(super) fn aside(&self) -> &BTreeSet<Pod> {
        &self.aside
    }

    /// Free slots on this pod, usable or not.
    pub(super) fn free_on(&self, pod: &Pod) -> u32 {
        self.by_pod.get(pod).map_or(0, Own::free)
    }

    /// Free slots on all pods, usable or not.
    pub(super) fn free_slots(&self) -> usize {
        self.by_pod.values().map(|own| own.free() as usize).sum()
    }

    /// The first usable pod with a free slot in a round that goes on after `last`.
    pub(super) fn free_after(&self, last: &Pod) -> Option<&Pod> {
        self.free.range((Bound::Excluded(last), Bound::Unbounded)).next().or_else(|| self.free.first())
    }

    /// Uses a slot.
    pub(super) fn take(&mut self, pod: &Pod) {
        self.change(pod, |own| own.used += 1);
    }

    /// Ends the use of a slot.
    pub(super) fn release(&mut self, pod: &Pod) {
        self.change(pod, |own| own.used = own.used.saturating_sub(1));
    }

    /// Lends a slot.
    pub(super) fn lend(&mut self, pod: &Pod) {
        self.change(pod, |own| own.lent += 1);
    }

    /// Lent slots are back.
    pub(super) fn take_back(&mut self, pod: &Pod, slots: u32) {
        self.change(pod, |own| own.lent = own.lent.saturating_sub(slots));
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut Own)) {
        let Some(own) = self.by_pod.get_mut(pod) else { return };
        change(own);
        let (free, nothing) = (own.free() > 0, own.is_nothing());
        let free_here = if self.usable.contains(pod) { &mut self.free } else { &mut self.aside };
        if !free {
            free_here.remove(pod);
        } else if !free_here.contains(pod) {
            free_here.insert(pod.clone());
        }
        if nothing {
            self.by_pod.remove(pod);
        }
    }

    fn sort_free(&mut self) {
        let free = self.by_pod.iter().filter(|(_, own)| own.free() > 0).map(|(pod, _)| pod.clone());
        (self.free, self.aside) = free.partition(|pod| self.usable.contains(pod));
    }
}

// === impl Own ===

impl Own {
    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.used).saturating_sub(self.lent)
    }

    fn is_nothing(&self) -> bool {
        self.slots == 0 && self.used == 0 && self.lent == 0
    }
}
