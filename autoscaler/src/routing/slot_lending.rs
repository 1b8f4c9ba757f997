//! Slot lending: activators use each other's free slots, so that no pod is idle while a request
//! waits.
//!
//! ```text
//!      activator a                                    activator b
//!        │ ── Want ────────────────────────────────────►│ b has a free slot and no request for it,
//!        │ ◄───────────────────────────────── Lend ──── │ or a's oldest request waits much longer
//!        │ the request of a runs on the slot            │
//!        │ ── Return ──────────────────────────────────►│ unless a has more requests and no other
//!        │                                              │ peer wants slots
//! ```
//!
//! Each activator has one [`SlotLending`] for each workload with a container concurrency. Input:
//! its own [`slot_share`](crate::routing::pod_assignment::slot_share), requests that take and
//! release slots, number and age of waiting requests, and messages of peers. Output: messages to
//! peers. The caller owns the queue and sends the requests.
//!
//! Why no pod is idle while a request waits, as long as connections between activators are up:
//!
//! 1. Each slot is held by one activator at a time: its owner, or the borrower.
//! 2. An activator with waiting requests has sent `Want` to all peers.
//!    [`settle`](SlotLending::settle) decrements the announced want with each borrowed slot. The
//!    estimate can only be too low, which leads to a redundant `Want`.
//! 3. An owner with a free slot and no waiting request lends the slot to a peer that wants it. A
//!    borrower without a request for the slot returns it at once.
//! 4. A slot that is unused while a request waits is thus in transit: in a `Lend` or in a `Return`.
//!    It may reach a peer that no longer needs it, at most once for each peer. A request waits
//!    beside the same idle pod for at most two messages per activator (6 messages for 3 activators,
//!    each some hundred microseconds within a cluster).
//!
//! An activator takes its own slots on near pods first, by the
//! [policy](LoadBalancingPolicy). It lends any: where a borrower runs is not reported.
//!
//! A pod that this activator cannot reach yet is set aside. Own slots on it are lent to peers that
//! can use them. A borrowed slot on it is refused once, until the pod is usable
//! ([`set_usable`](SlotLending::set_usable)).
//!
//! No activator starves: an owner with waiting requests still lends if a peer's request has waited
//! much longer. A borrower returns a slot after one request if any other peer wants slots. If all
//! activators are equally overloaded, no slots are lent and no messages are sent.
//!
//! Messages of a lost peer are void. Slots that it had borrowed are free at once, although requests
//! may still run on them. Views may also differ for a moment while pods or activators change. The
//! limit of the sidecar then prevents overload, and a request waits there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::routing::proximity::Proximity;

mod load_balancing_policy;
mod own_slots;
mod peer_ledger;
mod slot_message;

pub use load_balancing_policy::LoadBalancingPolicy;
use own_slots::OwnSlots;
use peer_ledger::PeerLedger;
pub use slot_message::{MESSAGE_KINDS, SlotMessage, WorkloadSlotMessage};

/// Limit of the want of a peer, in requests. Larger than the queue of any activator.
const MOST_WANTED: u32 = 1_000_000;
/// Limit of stored pods that were refused to one peer. Beyond it, the peer may lend an old one
/// again.
const MOST_DECLINED: usize = 1024;
/// A peer's oldest request takes precedence if its wait exceeds 1.25 times the oldest own wait by
/// this much. A smaller difference does not justify the messages.
const PRECEDENCE_AFTER: Duration = Duration::from_millis(50);

/// A slot in use, to be returned with [`SlotLending::release`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a slot that is not released is never used again"]
pub struct Slot<Pod, Peer> {
    /// The pod of the slot.
    pub pod: Pod,
    /// The peer that has lent the slot; `None` for an own slot.
    pub lender: Option<Peer>,
}

/// Number and age of requests that wait in this activator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingRequests {
    /// Number of waiting requests.
    pub requests: u32,
    /// Arrival of the oldest one.
    pub oldest: Duration,
}

/// Slots of one workload in one activator: own, lent and borrowed.
#[derive(Clone, Debug)]
pub struct SlotLending<Pod, Peer> {
    own: OwnSlots<Pod>,
    /// Borrowed slots that are not in use. At most as many as requests wait.
    borrowed: VecDeque<Slot<Pod, Peer>>,
    peers: BTreeMap<Peer, PeerLedger<Pod>>,
    waiting: WaitingRequests,
    /// The pod of the own slot that was taken last, for round robin.
    last: Option<Pod>,
    /// Whether slots or wants have changed since the last attempt to lend.
    unsettled: bool,
    outbox: Vec<(Peer, SlotMessage<Pod>)>,
}

// === impl SlotLending ===

impl<Pod, Peer> Default for SlotLending<Pod, Peer> {
    fn default() -> Self {
        Self {
            own: OwnSlots::default(),
            borrowed: VecDeque::new(),
            peers: BTreeMap::new(),
            waiting: WaitingRequests::default(),
            last: None,
            unsettled: false,
            outbox: Vec::new(),
        }
    }
}

impl<Pod: Ord + Clone, Peer: Ord + Clone> SlotLending<Pod, Peer> {
    /// Sets a new assignment. Slots in use or lent stay so until they are released or returned.
    pub fn set_share(&mut self, share: impl IntoIterator<Item = (Pod, u32)>) {
        self.own.set_share(share);
        for ledger in self.peers.values_mut() {
            ledger.refused.retain(|pod| self.own.has(pod));
        }
        self.unsettled = true;
    }

    /// Sets the pods that this activator reaches, with own slots or without, and how near they are.
    pub fn set_usable(&mut self, pods: BTreeMap<Pod, Proximity>) {
        let (new, unusable) = self.own.set_usable(pods);
        for pod in &new {
            for (peer, ledger) in &mut self.peers {
                if ledger.declined.remove(pod) {
                    self.outbox.push((peer.clone(), SlotMessage::Accept(pod.clone())));
                }
            }
        }
        if !unusable.is_empty() {
            let (kept, returned) =
                std::mem::take(&mut self.borrowed).into_iter().partition(|s| self.own.is_usable(&s.pod));
            self.borrowed = kept;
            for slot in returned {
                self.give_back(slot);
            }
        }
        self.unsettled = true;
    }

    /// Sets the connected peers. Slots lent to a removed peer are free again; slots borrowed from
    /// it are lost. After a broken connection the caller must remove the peer before it adds it
    /// again, because all earlier messages are void.
    pub fn set_peers(&mut self, peers: &BTreeSet<Peer>) {
        let left: Vec<Peer> = self.peers.keys().filter(|peer| !peers.contains(*peer)).cloned().collect();
        for peer in left {
            self.lose_peer(&peer);
            self.peers.remove(&peer);
        }
        for peer in peers {
            self.peers.entry(peer.clone()).or_default();
        }
    }

    /// Whether any peer is connected.
    pub fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Takes a free slot. Borrowed slots come first, because their owners may need them.
    pub fn take(&mut self, policy: LoadBalancingPolicy) -> Option<Slot<Pod, Peer>> {
        if let Some(borrowed) = self.borrowed.pop_front() {
            return Some(borrowed);
        }
        let next = match (policy, &self.last) {
            (LoadBalancingPolicy::RoundRobin, Some(last)) => self.own.nearer_free_after(last),
            _ => self.own.nearest_free(),
        };
        let pod = next?.clone();
        self.own.take(&pod);
        if policy == LoadBalancingPolicy::RoundRobin {
            self.last = Some(pod.clone());
        }
        Some(Slot { pod, lender: None })
    }

    /// Ends the use of a slot. The slot may be lent to, or returned to, a peer.
    pub fn release(&mut self, slot: Slot<Pod, Peer>, now: Duration) {
        if slot.lender.is_none() {
            self.own.release(&slot.pod);
            self.lend_to_longer_waiting(&slot.pod, now);
            self.unsettled = true;
            return;
        }
        let wanted_elsewhere = self.peers.values().any(|ledger| ledger.wants > 0);
        let spare = self.waiting.requests as usize > self.borrowed.len();
        if spare && !wanted_elsewhere && self.own.is_usable(&slot.pod) && self.is_lent(&slot) {
            self.borrowed.push_back(slot);
        } else {
            self.give_back(slot);
        }
    }

    /// Sets the number and age of waiting requests. To be called after [`take`](Self::take) and
    /// before [`settle`](Self::settle).
    pub fn set_waiting(&mut self, waiting: WaitingRequests) {
        self.waiting = waiting;
    }

    /// Handles a message of a peer. Messages of unconnected peers are ignored.
    pub fn receive(&mut self, from: &Peer, message: SlotMessage<Pod>, now: Duration) {
        let Some(ledger) = self.peers.get_mut(from) else { return };
        self.unsettled = true;
        match message {
            SlotMessage::Want { requests, oldest_millis } => {
                ledger.wants = requests.min(MOST_WANTED);
                let waited = Duration::from_millis(oldest_millis);
                ledger.oldest = (requests > 0).then(|| now.saturating_sub(waited));
            }
            SlotMessage::Lend(pod) => {
                ledger.announced = ledger.announced.saturating_sub(1);
                ledger.outdated = true;
                let slot = Slot { pod, lender: Some(from.clone()) };
                if self.own.is_usable(&slot.pod) && self.borrowed.len() < self.waiting.requests as usize {
                    self.borrowed.push_back(slot);
                } else {
                    self.give_back(slot);
                }
            }
            SlotMessage::Return(pod) => self.take_back(from, &pod),
            SlotMessage::Refuse(pod) => {
                if self.own.has(&pod) {
                    ledger.refused.insert(pod.clone());
                }
                self.take_back(from, &pod);
            }
            SlotMessage::Accept(pod) => {
                ledger.refused.remove(&pod);
            }
            SlotMessage::Begin => self.lose_peer(from),
        }
    }

    /// Lends spare slots, returns unneeded ones, and announces waiting requests. Returns all
    /// messages since the last call. To be called after each event.
    pub fn settle(&mut self, now: Duration) -> Vec<(Peer, SlotMessage<Pod>)> {
        self.return_spare();
        if std::mem::take(&mut self.unsettled) {
            self.lend_spare();
        }
        self.announce_want(now);
        std::mem::take(&mut self.outbox)
    }

    /// Number of own and borrowed slots that are neither in use nor lent.
    pub fn free_slots(&self) -> usize {
        self.own.free_slots() + self.borrowed.len()
    }

    fn lose_peer(&mut self, peer: &Peer) {
        let Some(ledger) = self.peers.get_mut(peer) else { return };
        for (pod, slots) in std::mem::take(ledger).lent {
            self.own.take_back(&pod, slots);
        }
        self.borrowed.retain(|slot| slot.lender.as_ref() != Some(peer));
        self.outbox.retain(|(to, _)| to != peer);
        self.unsettled = true;
    }

    fn take_back(&mut self, from: &Peer, pod: &Pod) {
        if self.peers.get_mut(from).is_some_and(|ledger| ledger.take_back(pod)) {
            self.own.take_back(pod, 1);
        }
    }

    /// Whether the lender is still connected. The slots of a lost lender have other owners.
    fn is_lent(&self, slot: &Slot<Pod, Peer>) -> bool {
        slot.lender.as_ref().is_some_and(|lender| self.peers.contains_key(lender))
    }

    /// Returns a borrowed slot to its lender, or refuses it if the pod is not usable.
    fn give_back(&mut self, slot: Slot<Pod, Peer>) {
        let Some(lender) = slot.lender else { return };
        let Some(ledger) = self.peers.get_mut(&lender) else { return };
        if self.own.is_usable(&slot.pod) {
            return self.outbox.push((lender, SlotMessage::Return(slot.pod)));
        }
        if ledger.declined.len() >= MOST_DECLINED
            && let Some(evicted) = ledger.declined.pop_first()
        {
            self.outbox.push((lender.clone(), SlotMessage::Accept(evicted)));
        }
        ledger.declined.insert(slot.pod.clone());
        self.outbox.push((lender, SlotMessage::Refuse(slot.pod)));
    }

    fn return_spare(&mut self) {
        while self.borrowed.len() > self.waiting.requests as usize {
            let Some(slot) = self.borrowed.pop_back() else { return };
            self.give_back(slot);
        }
    }

    fn lend_spare(&mut self) {
        if self.peers.values().all(|ledger| ledger.wants == 0) {
            return;
        }
        for pod in self.own.aside().clone() {
            while self.own.free_on(&pod) > 0 && self.lend_to_longest(&pod) {}
        }
        // Waiting requests use borrowed slots first.
        let mut needed = (self.waiting.requests as usize).saturating_sub(self.borrowed.len());
        for pod in self.own.free().clone() {
            for _ in 0..self.own.free_on(&pod) {
                if needed > 0 {
                    needed -= 1;
                } else if !self.lend_to_longest(&pod) {
                    break;
                }
            }
        }
    }

    /// Lends a slot on `pod` to the peer that has waited longest. False if no peer wants a slot
    /// there.
    fn lend_to_longest(&mut self, pod: &Pod) -> bool {
        let wanting = self.peers.iter().filter(|(_, ledger)| ledger.wants_on(pod));
        // A peer that was lent a slot for its oldest request comes after the others.
        let longest = wanting.min_by_key(|(_, ledger)| ledger.oldest.unwrap_or(Duration::MAX));
        let Some(peer) = longest.map(|(peer, _)| peer.clone()) else { return false };
        self.lend(pod, &peer);
        true
    }

    /// Lends a slot that has become free if a peer's oldest request has waited much longer than the
    /// oldest own request.
    fn lend_to_longer_waiting(&mut self, pod: &Pod, now: Duration) {
        if self.own.free_on(pod) == 0 {
            return;
        }
        let own_wait = now.saturating_sub(self.waiting.oldest);
        let much_longer = own_wait + own_wait / 4 + PRECEDENCE_AFTER;
        let longest = self
            .peers
            .iter()
            .filter(|(_, ledger)| ledger.wants_on(pod))
            .filter_map(|(peer, ledger)| Some((peer, now.saturating_sub(ledger.oldest?))))
            .max_by_key(|(_, waited)| *waited);
        if let Some((peer, waited)) = longest
            && waited > much_longer
        {
            let peer = peer.clone();
            self.lend(pod, &peer);
        }
    }

    fn lend(&mut self, pod: &Pod, peer: &Peer) {
        let Some(ledger) = self.peers.get_mut(peer) else { return };
        self.own.lend(pod);
        ledger.wants = ledger.wants.saturating_sub(1);
        ledger.oldest = None;
        *ledger.lent.entry(pod.clone()).or_default() += 1;
        self.outbox.push((peer.clone(), SlotMessage::Lend(pod.clone())));
    }

    /// Sends `Want` to each peer if its announced want is 0, outdated or less than half of the
    /// current one. Withdraws it if no request waits.
    fn announce_want(&mut self, now: Duration) {
        let wanted = self.waiting.requests;
        let waited = now.saturating_sub(self.waiting.oldest);
        let oldest_millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        for (peer, ledger) in &mut self.peers {
            let is_due = match wanted {
                0 => ledger.announced > 0,
                _ => ledger.announced == 0 || ledger.outdated || wanted / 2 > ledger.announced,
            };
            if is_due {
                ledger.announced = wanted;
                ledger.outdated = false;
                self.outbox.push((peer.clone(), SlotMessage::Want { requests: wanted, oldest_millis }));
            }
        }
    }
}

#[cfg(test)]
mod tests;
