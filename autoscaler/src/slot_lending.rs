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
//! [`share`](crate::pod_assignment::share), requests that take and release slots, how many wait and since when, and what the
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
//! Nobody starves either: an owner with requests of its own still lends when another's have waited much longer, and a
//! borrower gives back after one request when anybody else wants. What surprises: under even overload nothing is lent,
//! and there are no messages at all.
//!
//! A lost peer takes its words with it: what it had borrowed is free again at once, though it may still run there. The
//! same holds for a moment while pods or activators change. The sidecar's limit is the guard then, and makes one wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Requests that a peer may say it wants slots for. More than any activator holds.
const MOST_WANTED: u32 = 1_000_000;
/// A peer's oldest request must have waited this much longer than ours, and a quarter more, before it comes first: below
/// that the messages would cost more than the order is worth.
const ELDER_BY: Duration = Duration::from_millis(50);

/// What activators say to each other about one workload's slots. Each pair's messages arrive in order or the pair is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message<Pod> {
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
pub struct Waiting {
    /// How many.
    pub requests: u32,
    /// Since when the oldest waits.
    pub oldest: Duration,
}

/// One activator's view of one workload's slots.
#[derive(Clone, Debug)]
pub struct SlotLending<Pod, Peer> {
    own: BTreeMap<Pod, Own>,
    /// Borrowed, and not in use. Never more than requests wait here.
    borrowed: VecDeque<Slot<Pod, Peer>>,
    peers: BTreeMap<Peer, Standing<Pod>>,
    waiting: Waiting,
    outbox: Vec<(Peer, Message<Pod>)>,
}

/// Our slots on one pod.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// By the assignment.
    slots: u32,
    used: u32,
    lent: u32,
}

/// What stands between us and another activator.
#[derive(Clone, Debug)]
struct Standing<Pod> {
    /// Requests for which it wants slots.
    wants: u32,
    /// Since when its oldest request waits; `None` after we lent it a slot for that one.
    oldest: Option<Duration>,
    /// What it believes that we want, or less.
    told: u32,
    /// Whether it gave a slot to our oldest request, so that it does not know the age of the next.
    outdated: bool,
    /// Our slots that it holds.
    lent: BTreeMap<Pod, u32>,
}

// === impl SlotLending ===

impl<Pod: Ord + Clone, Peer: Ord + Clone> Default for SlotLending<Pod, Peer> {
    fn default() -> Self {
        Self {
            own: BTreeMap::new(),
            borrowed: VecDeque::new(),
            peers: BTreeMap::new(),
            waiting: Waiting::default(),
            outbox: Vec::new(),
        }
    }
}

impl<Pod: Ord + Clone, Peer: Ord + Clone> SlotLending<Pod, Peer> {
    /// Takes in a new assignment. Slots in use or lent stay so until they are released or returned.
    pub fn set_share(&mut self, share: impl IntoIterator<Item = (Pod, u32)>) {
        for own in self.own.values_mut() {
            own.slots = 0;
        }
        for (pod, slots) in share {
            self.own.entry(pod).or_default().slots = slots;
        }
        self.own.retain(|_, own| own.slots + own.used + own.lent > 0);
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

    /// The pods with a slot that may be taken, borrowed ones first: they cost somebody else.
    pub fn free(&self) -> impl Iterator<Item = &Pod> {
        let own = self.own.iter().filter(|(_, own)| own.free() > 0).map(|(pod, _)| pod);
        self.borrowed.iter().map(|slot| &slot.pod).chain(own)
    }

    /// Takes a slot on this pod, if one is free.
    pub fn take(&mut self, pod: &Pod) -> Option<Slot<Pod, Peer>> {
        if let Some(at) = self.borrowed.iter().position(|slot| slot.pod == *pod) {
            return self.borrowed.remove(at);
        }
        let own = self.own.get_mut(pod).filter(|own| own.free() > 0)?;
        own.used += 1;
        Some(Slot { pod: pod.clone(), lender: None })
    }

    /// Ends the use of a slot, and decides whose it is next: ours, or a peer's that has waited much longer.
    pub fn release(&mut self, slot: Slot<Pod, Peer>, now: Duration) {
        let Some(lender) = &slot.lender else {
            if let Some(own) = self.own.get_mut(&slot.pod) {
                own.used = own.used.saturating_sub(1);
            }
            self.lend_to_elder(&slot.pod, now);
            return;
        };
        let wanted_elsewhere = self.peers.values().any(|standing| standing.wants > 0);
        let spare = self.waiting.requests as usize > self.borrowed.len();
        match self.peers.contains_key(lender) {
            true if spare && !wanted_elsewhere => self.borrowed.push_back(slot),
            true => self.outbox.push((lender.clone(), Message::Return(slot.pod))),
            // The lender left, and its pods have other owners by now.
            false => {}
        }
    }

    /// What waits here now. To be said after free slots were taken and before [`settle`](Self::settle).
    pub fn set_waiting(&mut self, waiting: Waiting) {
        self.waiting = waiting;
    }

    /// Takes in what a peer says. Words of a stranger are ignored.
    pub fn receive(&mut self, from: &Peer, message: Message<Pod>, now: Duration) {
        let Some(standing) = self.peers.get_mut(from) else { return };
        match message {
            Message::Want { requests, oldest_millis } => {
                standing.wants = requests.min(MOST_WANTED);
                let waited = Duration::from_millis(oldest_millis);
                standing.oldest = (requests > 0).then(|| now.saturating_sub(waited));
            }
            Message::Lend(pod) => {
                standing.told = standing.told.saturating_sub(1);
                standing.outdated = true;
                let slot = Slot { pod, lender: Some(from.clone()) };
                if self.borrowed.len() < self.waiting.requests as usize {
                    self.borrowed.push_back(slot);
                } else {
                    self.outbox.push((from.clone(), Message::Return(slot.pod)));
                }
            }
            Message::Return(pod) => {
                if standing.take_back(&pod)
                    && let Some(own) = self.own.get_mut(&pod)
                {
                    own.lent = own.lent.saturating_sub(1);
                }
            }
        }
    }

    /// Lends what is spare, returns what is not needed, tells who must know what waits here, and gives the messages that
    /// came of that and of everything since the last call. To be called after each event, before anything else waits.
    pub fn settle(&mut self, now: Duration) -> Vec<(Peer, Message<Pod>)> {
        self.own.retain(|_, own| own.slots + own.used + own.lent > 0);
        self.return_spare();
        self.lend_spare();
        self.tell(now);
        std::mem::take(&mut self.outbox)
    }

    /// Slots that are neither in use nor lent, own and borrowed.
    pub fn free_slots(&self) -> usize {
        self.own.values().map(|own| own.free() as usize).sum::<usize>() + self.borrowed.len()
    }

    fn lose_peer(&mut self, peer: &Peer) {
        let Some(standing) = self.peers.get_mut(peer) else { return };
        for (pod, slots) in std::mem::take(standing).lent {
            if let Some(own) = self.own.get_mut(&pod) {
                own.lent = own.lent.saturating_sub(slots);
            }
        }
        self.borrowed.retain(|slot| slot.lender.as_ref() != Some(peer));
        self.outbox.retain(|(to, _)| to != peer);
    }

    fn return_spare(&mut self) {
        while self.borrowed.len() > self.waiting.requests as usize {
            let Some(slot) = self.borrowed.pop_back() else { return };
            if let Some(lender) = slot.lender {
                self.outbox.push((lender, Message::Return(slot.pod)));
            }
        }
    }

    fn lend_spare(&mut self) {
        // Borrowed ones serve our own first.
        let mut needed = (self.waiting.requests as usize).saturating_sub(self.borrowed.len());
        let free: Vec<(Pod, u32)> = self
            .own
            .iter()
            .map(|(pod, own)| (pod.clone(), own.free()))
            .filter(|(_, free)| *free > 0)
            .collect();
        for (pod, free) in free {
            for _ in 0..free {
                if needed > 0 {
                    needed -= 1;
                } else if !self.lend_to_longest(&pod) {
                    return;
                }
            }
        }
    }

    /// Lends a slot on `pod` to the peer that waits longest. False if nobody wants one.
    fn lend_to_longest(&mut self, pod: &Pod) -> bool {
        let wanting = self.peers.iter().filter(|(_, standing)| standing.wants > 0);
        // Who was lent one already comes after those whose oldest still waits.
        let longest = wanting.min_by_key(|(_, standing)| standing.oldest.unwrap_or(Duration::MAX));
        let Some(peer) = longest.map(|(peer, _)| peer.clone()) else { return false };
        self.lend(pod, &peer);
        true
    }

    /// Lends the slot that has just become free, if a peer's oldest request has waited much longer than ours.
    fn lend_to_elder(&mut self, pod: &Pod, now: Duration) {
        if self.own.get(pod).is_none_or(|own| own.free() == 0) {
            return;
        }
        let ours = now.saturating_sub(self.waiting.oldest);
        let much_longer = ours + ours / 4 + ELDER_BY;
        let elder = self
            .peers
            .iter()
            .filter(|(_, standing)| standing.wants > 0)
            .filter_map(|(peer, standing)| Some((peer, now.saturating_sub(standing.oldest?))))
            .max_by_key(|(_, waited)| *waited);
        if let Some((peer, waited)) = elder
            && waited > much_longer
        {
            let peer = peer.clone();
            self.lend(pod, &peer);
        }
    }

    fn lend(&mut self, pod: &Pod, peer: &Peer) {
        let (Some(own), Some(standing)) = (self.own.get_mut(pod), self.peers.get_mut(peer)) else { return };
        own.lent += 1;
        standing.wants = standing.wants.saturating_sub(1);
        standing.oldest = None;
        *standing.lent.entry(pod.clone()).or_default() += 1;
        self.outbox.push((peer.clone(), Message::Lend(pod.clone())));
    }

    /// Says what waits here to every peer that may believe nothing does, or far less; and takes it back when nothing does.
    fn tell(&mut self, now: Duration) {
        let wanted = self.waiting.requests;
        let waited = now.saturating_sub(self.waiting.oldest);
        let oldest_millis = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        for (peer, standing) in &mut self.peers {
            let news = match wanted {
                0 => standing.told > 0,
                _ => standing.told == 0 || standing.outdated || wanted / 2 > standing.told,
            };
            if news {
                standing.told = wanted;
                standing.outdated = false;
                self.outbox.push((peer.clone(), Message::Want { requests: wanted, oldest_millis }));
            }
        }
    }
}

// === impl Own ===

impl Own {
    fn free(&self) -> u32 {
        self.slots.saturating_sub(self.used).saturating_sub(self.lent)
    }
}

// === impl Standing ===

impl<Pod> Default for Standing<Pod> {
    fn default() -> Self {
        Self { wants: 0, oldest: None, told: 0, outdated: false, lent: BTreeMap::new() }
    }
}

impl<Pod: Ord> Standing<Pod> {
    /// False if it holds no slot of ours there.
    fn take_back(&mut self, pod: &Pod) -> bool {
        let Some(slots) = self.lent.get_mut(pod) else { return false };
        *slots -= 1;
        if *slots == 0 {
            self.lent.remove(pod);
        }
        true
    }
}

#[cfg(test)]
mod tests;
