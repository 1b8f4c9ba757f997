//! Slot lending: what an activator does not need of its share, the others may use; so no pod is idle while a request waits.
//!
//! ```text
//!      a waits                          a                      b
//!        │ ── Want ─────────────────────►──────────────────────►│ b has a free slot and nobody to use it,
//!        │ ◄─────────────────── Lend ───◄────────────────────── │ or a's oldest request waits much longer than b's
//!        │ the request runs on the slot │                       │
//!        │ ── Return ───────────────────►──────────────────────►│ unless a has more to do and nobody else wants
//! ```
//!
//! Each activator holds one [`SlotLending`] for each workload with a container concurrency. Input: its own
//! [`share`](crate::routing::pod_assignment::share), requests that take and release slots, how many wait and since when, and what the
//! other activators say. Output: messages to them. The caller picks pods and holds the queue.
//!
//! Why no pod is idle while a request waits, when nothing is lost between two activators for longer than a message takes:
//!
//! 1. Every slot is held by one activator at a time: its owner, or the one that the owner has lent it to.
//! 2. Who waits has told everybody so ([`settle`](SlotLending::settle) says `Want` to whoever may believe otherwise: it
//!    counts down what a peer believes with each slot that comes from there, so it can only err towards saying it again).
//! 3. An owner with a free slot and nobody waiting lends it to whoever wants. Who has borrowed one and has nobody for it
//!    returns it at once.
//! 4. So a slot that is not in use while a request waits is on its way: with its owner's `Lend`, or back with a `Return`.
//!    It may go in vain to a peer whose wish was met elsewhere in the meantime, which is known one message later: so at most
//!    once to each. No request waits beside one and the same idle pod for longer than two messages for each activator there
//!    is (6 for 3 activators, each some hundred microseconds within a cluster).
//!
//! A pod that cannot be reached from here, or is not known yet, is set aside: its slots of ours are lent to whoever can use
//! them, and one that is lent to us is refused, once, until the pod is usable ([`set_usable`](SlotLending::set_usable)).
//!
//! Nobody starves either: an owner with requests of its own still lends when another's have waited much longer, and a
//! borrower gives back after one request when anybody else wants. What surprises: under even overload nothing is lent,
//! and there are no messages at all.
//!
//! A lost peer takes its words with it: what it had borrowed is free again at once, though it may still run there. The
//! same holds for a moment while pods or activators change. The sidecar's limit is the guard then, and makes one wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Key;

mod load_balancing_policy;
mod own_slots;
mod peer_ledger;

pub use load_balancing_policy::LoadBalancingPolicy;
use own_slots::OwnSlots;
use peer_ledger::PeerLedger;

/// Requests that a peer may say it wants slots for. More than any activator holds.
const MOST_WANTED: u32 = 1_000_000;
/// Pods of one peer that are remembered as refused. Beyond that it may offer one of them again.
const MOST_DECLINED: usize = 1024;
/// A peer's oldest request must have waited this much longer than ours, and a quarter more, before it comes first: below
/// that the messages would cost more than the order is worth.
const ELDER_BY: Duration = Duration::from_millis(50);

/// What activators say to each other about one workload's slots. Each pair's messages arrive in order or the pair is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SlotMessage<Pod> {
    /// The sender has so many requests waiting, the oldest for so long. Replaces what it said before.
    Want {
        /// Requests without a slot; 0 takes the wish back.
        requests: u32,
        /// How long the oldest of them has been waiting, in milliseconds.
        oldest_millis: u64,
    },
    /// One of the sender's slots on this pod is the receiver's until it returns it.
    Lend(Pod),
    /// A slot that the receiver has lent on this pod is its own again.
    Return(Pod),
    /// The same, and the sender can use none there until it says [`Accept`](Self::Accept).
    Refuse(Pod),
    /// The sender can use slots on this pod again.
    Accept(Pod),
    /// The sender begins with this workload: what it wanted, had lent and borrowed is forgotten.
    Begin,
}

/// A [`SlotMessage`] on its way, which several workloads share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadSlotMessage<Pod> {
    /// Whose slots it is about.
    pub workload: Key,
    /// What is said.
    pub message: SlotMessage<Pod>,
}

/// A slot in use. Goes back by [`SlotLending::release`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a slot that is not released is never used again"]
pub struct Slot<Pod, Peer> {
    /// Where it is.
    pub pod: Pod,
    /// Who has lent it; `None` if it is our own.
    pub lender: Option<Peer>,
}

/// The requests that wait here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingRequests {
    /// How many.
    pub requests: u32,
    /// Since when the oldest waits.
    pub oldest: Duration,
}

/// One activator's view of one workload's slots.
#[derive(Clone, Debug)]
pub struct SlotLending<Pod, Peer> {
    own: OwnSlots<Pod>,
    /// Borrowed, and not in use. Never more than requests wait here.
    borrowed: VecDeque<Slot<Pod, Peer>>,
    peers: BTreeMap<Peer, PeerLedger<Pod>>,
    waiting: WaitingRequests,
    /// The pod of ours that was taken last, from which a round goes on.
    last: Option<Pod>,
    /// Whether there may be something to lend: a slot is free or a wish is there that was not before.
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
    /// Takes in a new assignment. Slots in use or lent stay so until they are released or returned.
    pub fn set_share(&mut self, share: impl IntoIterator<Item = (Pod, u32)>) {
        self.own.set_share(share);
        for ledger in self.peers.values_mut() {
            ledger.refused.retain(|pod| self.own.has(pod));
        }
        self.unsettled = true;
    }

    /// Takes in to which pods requests may go from here, whoever owns their slots.
    pub fn set_usable(&mut self, pods: BTreeSet<Pod>) {
        let (new, gone) = self.own.set_usable(pods);
        for pod in &new {
            for (peer, ledger) in &mut self.peers {
                if ledger.declined.remove(pod) {
                    self.outbox.push((peer.clone(), SlotMessage::Accept(pod.clone())));
                }
            }
        }
        if !gone.is_empty() {
            let (stay, go) =
                std::mem::take(&mut self.borrowed).into_iter().partition(|s| self.own.is_usable(&s.pod));
            self.borrowed = stay;
            for slot in go {
                self.give_back(slot);
            }
        }
        self.unsettled = true;
    }

    /// Takes in whom we are connected to. What a peer that left had borrowed is ours again; what it had lent goes with it.
    /// A connection that breaks ends everything said on it: the peer has to leave before it comes back.
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

    /// Whether there is anybody to talk to.
    pub fn has_peers(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Takes a free slot, if there is one. Borrowed ones come first: they cost somebody else.
    pub fn take(&mut self, policy: LoadBalancingPolicy) -> Option<Slot<Pod, Peer>> {
        if let Some(borrowed) = self.borrowed.pop_front() {
            return Some(borrowed);
        }
        let next = match (policy, &self.last) {
            (LoadBalancingPolicy::RoundRobin, Some(last)) => self.own.free_after(last),
            _ => self.own.free().first(),
        };
        let pod = next?.clone();
        self.own.take(&pod);
        if policy == LoadBalancingPolicy::RoundRobin {
            self.last = Some(pod.clone());
        }
        Some(Slot { pod, lender: None })
    }

    /// Ends the use of a slot, and decides whose it is next: ours, or a peer's that has waited much longer.
    pub fn release(&mut self, slot: Slot<Pod, Peer>, now: Duration) {
        if slot.lender.is_none() {
            self.own.release(&slot.pod);
            self.lend_to_elder(&slot.pod, now);
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

    /// What waits here now. To be said after free slots were taken and before [`settle`](Self::settle).
    pub fn set_waiting(&mut self, waiting: WaitingRequests) {
        self.waiting = waiting;
    }

    /// Takes in what a peer says. Words of a stranger are ignored.
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
                ledger.told = ledger.told.saturating_sub(1);
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

    /// Lends what is spare, returns what is not needed, tells who must know what waits here, and gives the messages that
    /// came of that and of everything since the last call. To be called after each event, before anything else waits.
    pub fn settle(&mut self, now: Duration) -> Vec<(Peer, SlotMessage<Pod>)> {
        self.return_spare();
        if std::mem::take(&mut self.unsettled) {
            self.lend_spare();
        }
        self.tell(now);
        std::mem::take(&mut self.outbox)
    }

    /// Slots that are neither in use nor lent, own and borrowed.
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

    /// Whether its lender is there. One that left took its slots with it, and its pods have other owners by now.
    fn is_lent(&self, slot: &Slot<Pod, Peer>) -> bool {
        slot.lender.as_ref().is_some_and(|lender| self.peers.contains_key(lender))
    }

    /// Gives a borrowed slot to its lender, and says so if it is of no use here.
    fn give_back(&mut self, slot: Slot<Pod, Peer>) {
        let Some(lender) = slot.lender else { return };
        let Some(ledger) = self.peers.get_mut(&lender) else { return };
        if self.own.is_usable(&slot.pod) {
            return self.outbox.push((lender, SlotMessage::Return(slot.pod)));
        }
        if ledger.declined.len() >= MOST_DECLINED
            && let Some(forgotten) = ledger.declined.pop_first()
        {
            self.outbox.push((lender.clone(), SlotMessage::Accept(forgotten)));
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
        // Borrowed ones serve our own first.
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

    /// Lends a slot on `pod` to the peer that waits longest. False if nobody wants one there.
    fn lend_to_longest(&mut self, pod: &Pod) -> bool {
        let wanting = self.peers.iter().filter(|(_, ledger)| ledger.wants_on(pod));
        // Who was lent one already comes after those whose oldest still waits.
        let longest = wanting.min_by_key(|(_, ledger)| ledger.oldest.unwrap_or(Duration::MAX));
        let Some(peer) = longest.map(|(peer, _)| peer.clone()) else { return false };
        self.lend(pod, &peer);
        true
    }

    /// Lends the slot that has just become free, if a peer's oldest request has waited much longer than ours.
    fn lend_to_elder(&mut self, pod: &Pod, now: Duration) {
        if self.own.free_on(pod) == 0 {
            return;
        }
        let ours = now.saturating_sub(self.waiting.oldest);
        let much_longer = ours + ours / 4 + ELDER_BY;
        let elder = self
            .peers
            .iter()
            .filter(|(_, ledger)| ledger.wants_on(pod))
            .filter_map(|(peer, ledger)| Some((peer, now.saturating_sub(ledger.oldest?))))
            .max_by_key(|(_, waited)| *waited);
        if let Some((peer, waited)) = elder
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

    /// Says what waits here to every peer that may believe nothing does, or far less; and takes it back when nothing does.
    fn tell(&mut self, now: Duration) {
        let wanted = self.waiting.requests;
        let waited = now.saturating_sub(self.waiting.oldest);
        let oldest_millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        for (peer, ledger) in &mut self.peers {
            let news = match wanted {
                0 => ledger.told > 0,
                _ => ledger.told == 0 || ledger.outdated || wanted / 2 > ledger.told,
            };
            if news {
                ledger.told = wanted;
                ledger.outdated = false;
                self.outbox.push((peer.clone(), SlotMessage::Want { requests: wanted, oldest_millis }));
            }
        }
    }
}

#[cfg(test)]
mod tests;
