//! PodSlots: the places on a workload's pods that requests from here may fill.
//!
//! With a container concurrency the places are slots: this activator has its share of them, lends what it does not need and
//! borrows from the others ([`SlotLending`] decides, [`Neighbours`] carries what is said). Shares are of all pods that have an
//! address, usable from here or not, so that everybody computes the same ones. Without a limit every activator uses
//! every pod, and nothing is said.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::slot_lending::{Filling, Message, Slot, SlotLending, Waiting, Word};
use tokio::time::Instant;

use crate::pod_set::PodSet;
use crate::pod_tracker::PodTracker;
use crate::slot_exchange::{LinkId, Neighbours};
use crate::two_choices;
use crate::workloads::Workload;

/// A slot that is used by a request from here.
pub(crate) type UsedSlot = Slot<IpAddr, LinkId>;

/// The places of one workload. Owned by its queue, behind a lock.
#[derive(Debug)]
pub(crate) struct PodSlots {
    key: Key,
    /// Requests one pod serves at a time; `None` is no limit.
    limit: Option<NonZeroU32>,
    /// How many activators share the slots; 0 is all there are.
    sharers: usize,
    lending: SlotLending<IpAddr, LinkId>,
    neighbours: Arc<Neighbours>,
    /// What the lending's times count from.
    epoch: Instant,
}

// === impl PodSlots ===

impl PodSlots {
    /// Places of a workload that was just learned of, without pods.
    pub(crate) fn new(key: Key, workload: &Workload, neighbours: Arc<Neighbours>) -> Self {
        let mut slots = Self {
            key,
            limit: NonZeroU32::new(workload.container_concurrency),
            sharers: 0,
            lending: SlotLending::default(),
            neighbours,
            epoch: Instant::now(),
        };
        slots.set_workload(workload);
        if slots.limit.is_some() {
            slots.begin();
        }
        slots
    }

    /// Takes a new state of the workload in. [`follow`](Self::follow) has to come after it.
    pub(crate) fn set_workload(&mut self, workload: &Workload) {
        self.sharers = workload.activators as usize;
        let before = std::mem::replace(&mut self.limit, NonZeroU32::new(workload.container_concurrency));
        if before.is_some() != self.limit.is_some() {
            self.begin();
        }
    }

    /// Takes in which other activators there are. [`follow`](Self::follow) has to come after it.
    pub(crate) fn set_neighbours(&mut self, neighbours: Arc<Neighbours>) {
        self.neighbours = neighbours;
        if self.limit.is_some() {
            self.lending.set_peers(&self.neighbours.links());
        }
    }

    /// Brings shares up to date with pods, limit and neighbours.
    pub(crate) fn follow(&mut self, pods: &PodSet) {
        self.lending.set_usable(pods.usable().iter().map(|pod| pod.ip).collect());
        let all: BTreeSet<IpAddr> = self.limit.iter().flat_map(|_| pods.addresses()).collect();
        let share = self.limit.map(|limit| self.neighbours.share(&self.key, &all, self.sharers, limit));
        self.lending.set_share(share.unwrap_or_default());
    }

    /// Takes a place on one of `pods`, if there is one. What has a slot must be [released](Self::release).
    pub(crate) fn take(&mut self, pods: &PodSet) -> Option<(Arc<PodTracker>, Option<UsedSlot>)> {
        let Some(limit) = self.limit else {
            return two_choices::less_busy(pods.usable(), &mut rand::rng()).map(|pod| (pod.clone(), None));
        };
        let slot = self.lending.take(Filling::of_container_concurrency(limit))?;
        match pods.usable_at(slot.pod) {
            Some(pod) => Some((pod.clone(), Some(slot))),
            None => {
                // Not to be, for both follow the same pods.
                self.release(slot);
                None
            }
        }
    }

    /// A request with a slot has ended.
    pub(crate) fn release(&mut self, slot: UsedSlot) {
        let now = if self.lending.has_peers() { self.now() } else { Duration::ZERO };
        self.lending.release(slot, now);
    }

    /// Hears another activator.
    pub(crate) fn hear(&mut self, from: LinkId, message: Message<IpAddr>) {
        let now = self.now();
        self.lending.receive(&from, message, now);
    }

    /// Tells the others what they must know, now that so many requests wait, the oldest since then.
    pub(crate) fn settle(&mut self, requests: usize, oldest: Option<Instant>) {
        if !self.lending.has_peers() {
            return;
        }
        let now = self.now();
        // Without a limit nobody waits for a slot.
        let requests = if self.limit.is_some() { u32::try_from(requests).unwrap_or(u32::MAX) } else { 0 };
        let oldest = oldest.map_or(now, |since| since.saturating_duration_since(self.epoch));
        self.lending.set_waiting(Waiting { requests, oldest });
        for (to, message) in self.lending.settle(now) {
            self.say(to, message);
        }
    }

    /// Everybody forgets what was said of this workload, or begins to speak of it.
    fn begin(&mut self) {
        self.lending.set_peers(&BTreeSet::new());
        let links = self.neighbours.links();
        for link in &links {
            self.say(*link, Message::Begin);
        }
        if self.limit.is_some() {
            self.lending.set_peers(&links);
        }
    }

    fn say(&self, to: LinkId, message: Message<IpAddr>) {
        self.neighbours.say(to, Word { workload: self.key.clone(), message });
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
}
