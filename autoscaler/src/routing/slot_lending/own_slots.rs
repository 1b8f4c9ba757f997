//! Slots that one activator owns, and which of them are in use, lent, or free.
//!
//! An unreachable pod is set aside: its slots stay owned by this activator, and activators that
//! reach the pod may borrow them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::routing::proximity::Proximity;

/// Slots of this activator, by pod.
#[derive(Clone, Debug)]
pub(super) struct OwnSlots<Pod> {
    by_pod: BTreeMap<Pod, PodSlots>,
    /// Pods that this activator reaches, with own slots or without.
    usable: BTreeMap<Pod, Proximity>,
    /// Usable pods with a free own slot.
    free: BTreeSet<Pod>,
    /// The pods that are [near](Proximity::is_near), nearest first.
    free_near: BTreeSet<(Reverse<Proximity>, Pod)>,
    /// Pods set aside (not usable) with a free own slot.
    aside: BTreeSet<Pod>,
}

/// Slots of this activator on one pod.
#[derive(Clone, Copy, Debug, Default)]
struct PodSlots {
    /// Owned slots, by the pod assignment.
    slots: u32,
    used: u32,
    lent: u32,
}

// === impl OwnSlots ===

impl<Pod> Default for OwnSlots<Pod> {
    fn default() -> Self {
        Self {
            by_pod: BTreeMap::new(),
            usable: BTreeMap::new(),
            free: BTreeSet::new(),
            free_near: BTreeSet::new(),
            aside: BTreeSet::new(),
        }
    }
}

impl<Pod: Ord + Clone> OwnSlots<Pod> {
    /// Sets a new assignment. Slots in use or lent stay in that state.
    pub(super) fn set_share(&mut self, share: impl IntoIterator<Item = (Pod, u32)>) {
        for own in self.by_pod.values_mut() {
            own.slots = 0;
        }
        for (pod, slots) in share {
            self.by_pod.entry(pod).or_default().slots = slots;
        }
        self.by_pod.retain(|_, own| !own.is_empty());
        self.sort_free();
    }

    /// Sets the usable pods. Returns newly usable pods, and pods that are no longer usable.
    pub(super) fn set_usable(&mut self, pods: BTreeMap<Pod, Proximity>) -> (Vec<Pod>, Vec<Pod>) {
        let before = std::mem::replace(&mut self.usable, pods);
        self.sort_free();
        let missing_in = |other: &BTreeMap<Pod, Proximity>, pods: &BTreeMap<Pod, Proximity>| {
            pods.keys().filter(|pod| !other.contains_key(pod)).cloned().collect()
        };
        (missing_in(&before, &self.usable), missing_in(&self.usable, &before))
    }

    pub(super) fn is_usable(&self, pod: &Pod) -> bool {
        self.usable.contains_key(pod)
    }

    /// Whether this activator has slots on the pod, owned, in use or lent.
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
        self.by_pod.get(pod).map_or(0, PodSlots::free)
    }

    /// Free slots on all pods, usable or not.
    pub(super) fn free_slots(&self) -> usize {
        self.by_pod.values().map(|own| own.free() as usize).sum()
    }

    /// The nearest usable pod with a free slot, the first of equally near ones.
    pub(super) fn nearest_free(&self) -> Option<&Pod> {
        self.free_near.first().map(|(_, pod)| pod).or_else(|| self.free.first())
    }

    /// The next usable pod with a free slot after `last`, wrapping around, or the one after it, if
    /// that is nearer and has as many free slots.
    pub(super) fn nearer_free_after(&self, last: &Pod) -> Option<&Pod> {
        let next = self.free_after(last)?;
        let second = self.free_after(next)?;
        let is_nearer = self.usable.get(second) > self.usable.get(next);
        Some(if is_nearer && self.free_on(second) >= self.free_on(next) { second } else { next })
    }

    fn free_after(&self, last: &Pod) -> Option<&Pod> {
        self.free.range((Bound::Excluded(last), Bound::Unbounded)).next().or_else(|| self.free.first())
    }

    /// Marks a slot as used.
    pub(super) fn take(&mut self, pod: &Pod) {
        self.change(pod, |own| own.used += 1);
    }

    /// Marks a used slot as free.
    pub(super) fn release(&mut self, pod: &Pod) {
        self.change(pod, |own| own.used = own.used.saturating_sub(1));
    }

    /// Marks a slot as lent.
    pub(super) fn lend(&mut self, pod: &Pod) {
        self.change(pod, |own| own.lent += 1);
    }

    /// Marks lent slots as returned.
    pub(super) fn take_back(&mut self, pod: &Pod, slots: u32) {
        self.change(pod, |own| own.lent = own.lent.saturating_sub(slots));
    }

    fn change(&mut self, pod: &Pod, change: impl FnOnce(&mut PodSlots)) {
        let Some(own) = self.by_pod.get_mut(pod) else { return };
        change(own);
        let (free, empty) = (own.free() > 0, own.is_empty());
        let proximity = self.usable.get(pod).copied();
        let free_here = if proximity.is_some() { &mut self.free } else { &mut self.aside };
        let changed = match free {
            true if free_here.contains(pod) => false,
            true => free_here.insert(pod.clone()),
            false => free_here.remove(pod),
        };
        if let Some(proximity) = proximity.filter(|proximity| changed && proximity.is_near()) {
            let near = (Reverse(proximity), pod.clone());
            if free {
                self.free_near.insert(near)
            } else {
                self.free_near.remove(&near)
            };
        }
        if empty {
            self.by_pod.remove(pod);
        }
    }

    fn sort_free(&mut self) {
        let free = self.by_pod.iter().filter(|(_, own)| own.free() > 0).map(|(pod, _)| pod.clone());
        (self.free, self.aside) = free.partition(|pod| self.usable.contains_key(pod));
        let near =
            self.usable.iter().filter(|(pod, proximity)| proximity.is_near() && self.free.contains(pod));
        self.free_near = near.map(|(pod, proximity)| (Reverse(*proximity), pod.clone())).collect();
    }
}

// === impl PodSlots ===

impl PodSlots {
    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.used).saturating_sub(self.lent)
    }

    fn is_empty(&self) -> bool {
        self.slots == 0 && self.used == 0 && self.lent == 0
    }
}
