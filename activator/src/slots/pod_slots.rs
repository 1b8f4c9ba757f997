//! PodSlots: the capacity of a workload's pods that this activator may use.
//!
//! With a container concurrency the capacity consists of slots. This activator owns its share of
//! them, lends slots that it does not need, and borrows from the others: [`SlotLending`] decides,
//! [`SlotPeers`] carries the messages. Shares are computed from all pods with an address, usable
//! from here or not, so that all activators compute the same ones. Each pod has as many slots as
//! its queue-proxy admits requests; the workload's limit is that of pods without their own. Without
//! any limit every activator uses every pod, and no messages are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::routing::slot_lending::{
    LoadBalancingPolicy, Slot, SlotLending, SlotMessage, WaitingRequests, WorkloadSlotMessage,
};
use autoscaler::settings::SidecarMode;
use tokio::time::Instant;

use crate::pods::load_balancing;
use crate::pods::pod_set::PodSet;
use crate::pods::pod_tracker::PodTracker;
use crate::slots::slot_link::LinkId;
use crate::slots::slot_peers::SlotPeers;
use crate::workloads::Workload;

/// A slot that is used by a request from here.
pub(crate) type UsedSlot = Slot<IpAddr, LinkId>;

/// The slots of one workload. Owned by its queue, behind a lock.
#[derive(Debug)]
pub(crate) struct PodSlots {
    key: Key,
    /// Requests that a pod without a limit of its own serves at a time; `None` means no limit.
    limit: Option<NonZeroU32>,
    /// The order in which slots are taken; `None` while no pod has a limit and requests need no
    /// slot.
    policy: Option<LoadBalancingPolicy>,
    /// Whether a sidecar enforces the limit as well.
    sidecar: SidecarMode,
    /// How many activators share the slots; 0 is all.
    sharers: usize,
    lending: SlotLending<IpAddr, LinkId>,
    peers: Arc<SlotPeers>,
    /// The start of the lending's clock.
    epoch: Instant,
}

// === impl PodSlots ===

impl PodSlots {
    /// The slots of a new workload without pods.
    pub(crate) fn new(key: Key, workload: &Workload, peers: Arc<SlotPeers>) -> Self {
        let mut slots = Self {
            key,
            limit: None,
            policy: None,
            sidecar: workload.sidecar,
            sharers: 0,
            lending: SlotLending::default(),
            peers,
            epoch: Instant::now(),
        };
        slots.set_workload(workload);
        slots.refresh(&PodSet::default());
        slots
    }

    /// Applies a new state of the workload. Call [`refresh`](Self::refresh) afterwards.
    pub(crate) fn set_workload(&mut self, workload: &Workload) {
        self.sharers = workload.activators as usize;
        self.sidecar = workload.sidecar;
        self.limit = NonZeroU32::new(workload.container_concurrency);
    }

    /// Sets the other activators. Call [`refresh`](Self::refresh) afterwards.
    pub(crate) fn set_peers(&mut self, peers: Arc<SlotPeers>) {
        self.peers = peers;
        if self.policy.is_some() {
            self.lending.set_peers(&self.peers.links());
        }
    }

    /// Recomputes the share from pods, limits and peers.
    pub(crate) fn refresh(&mut self, pods: &PodSet) {
        let limits = self.limits(pods);
        let largest = limits.values().copied().max().or(self.limit);
        // At zero it stays: the next pods mostly have limits if the last ones had.
        if largest.is_some() || pods.all().next().is_some() {
            self.set_policy(largest.map(LoadBalancingPolicy::of_container_concurrency));
        }
        self.lending.set_usable(pods.usable().iter().map(|pod| (pod.ip, pod.proximity)).collect());
        let is_limited = !limits.is_empty();
        let share = is_limited.then(|| self.peers.share(&self.key, &limits, self.sharers, self.sidecar));
        self.lending.set_share(share.unwrap_or_default());
    }

    /// Takes a slot on one of `pods`, if one is free. A used slot must be
    /// [released](Self::release).
    pub(crate) fn take(&mut self, pods: &PodSet) -> Option<(Arc<PodTracker>, Option<UsedSlot>)> {
        let Some(policy) = self.policy else {
            return load_balancing::less_busy(pods.usable(), &mut rand::rng()).map(|pod| (pod.clone(), None));
        };
        let slot = self.lending.take(policy)?;
        match pods.usable_at(slot.pod) {
            Some(pod) => Some((pod.clone(), Some(slot))),
            None => {
                // Cannot happen: both are updated from the same pods.
                self.release(slot);
                None
            }
        }
    }

    /// Releases the slot of a request that has ended.
    pub(crate) fn release(&mut self, slot: UsedSlot) {
        let now = if self.lending.has_peers() { self.now() } else { Duration::ZERO };
        self.lending.release(slot, now);
    }

    /// Applies a message of another activator.
    pub(crate) fn receive(&mut self, from: LinkId, message: SlotMessage<IpAddr>) {
        let now = self.now();
        self.lending.receive(&from, message, now);
    }

    /// Sends the other activators what follows from the number of waiting requests and the arrival
    /// of the oldest one.
    pub(crate) fn publish_waiting(&mut self, requests: usize, oldest: Option<Instant>) {
        if !self.lending.has_peers() {
            return;
        }
        let now = self.now();
        // Without a limit no request waits for a slot.
        let requests = if self.policy.is_some() { u32::try_from(requests).unwrap_or(u32::MAX) } else { 0 };
        let oldest = oldest.map_or(now, |since| since.saturating_duration_since(self.epoch));
        self.lending.set_waiting(WaitingRequests { requests, oldest });
        for (to, message) in self.lending.settle(now) {
            self.send(to, message);
        }
    }

    /// The limit of each pod; empty if none has one. In a rollout that introduces a limit, pods
    /// without one get as many requests as come.
    fn limits(&self, pods: &PodSet) -> BTreeMap<IpAddr, NonZeroU32> {
        if self.limit.is_none() && pods.all().all(|pod| pod.limit().is_none()) {
            return BTreeMap::new();
        }
        let of_others = self.limit.unwrap_or(NonZeroU32::MAX);
        pods.all().map(|pod| (pod.ip, pod.limit().unwrap_or(of_others))).collect()
    }

    fn set_policy(&mut self, policy: Option<LoadBalancingPolicy>) {
        let before = std::mem::replace(&mut self.policy, policy);
        if before.is_some() != policy.is_some() {
            self.reset();
        }
    }

    /// Discards the lending state of this workload, here and in the other activators.
    fn reset(&mut self) {
        self.lending.set_peers(&BTreeSet::new());
        let links = self.peers.links();
        for link in &links {
            self.send(*link, SlotMessage::Begin);
        }
        if self.policy.is_some() {
            self.lending.set_peers(&links);
        }
    }

    fn send(&self, to: LinkId, message: SlotMessage<IpAddr>) {
        self.peers.send(to, WorkloadSlotMessage { workload: self.key.clone(), message });
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
}
