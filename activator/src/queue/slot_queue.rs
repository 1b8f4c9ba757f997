//! SlotQueue: the requests of one workload that wait for a slot on a pod, and the slots.
//!
//! ```text
//!  try_acquire ─► a slot is free and no request waits ────────────► SlotPermit ─► dropped ─┐
//!  acquire ─────► end of the queue ─► first, and a slot is free ──► SlotPermit             │
//!                                        ▲                                                 │
//!            pods, limits, peers ────────┴─────────────────────────────────────────────────┘
//! ```
//!
//! Strictly first come, first served: a new request never overtakes a waiting one, and a request
//! that is queued again because its pod was unreachable is ordered by its arrival. A slot is handed
//! over inside the one lock, so that none is lost between its release and the wake-up of the
//! waiting task. A request that is cancelled after it was granted a slot, but before its task ran,
//! passes the slot on. Every change that may free a slot goes through
//! `SlotQueue::update_and_grant`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use autoscaler::routing::breaker::QueueFull;
use autoscaler::routing::slot_lending::SlotMessage;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::pods::pod_set::PodSet;
use crate::pods::pod_tracker::PodTracker;
use crate::slots::pod_slots::{PodSlots, UsedSlot};
use crate::slots::slot_link::LinkId;
use crate::slots::slot_peers::SlotPeers;
use crate::workloads::Workload;

/// Requests that were granted a slot and have not run since. A larger burst is released in
/// steps, so that requests of other workloads run in between, and so that later requests find the
/// connections of the first ones idle again.
const MAX_GRANTED: usize = 64;

/// One workload's queue.
#[derive(Debug)]
pub struct SlotQueue {
    state: Mutex<QueueState>,
}

/// Invariant, whenever the lock is free and no `update_and_grant` is under way: the queue is empty,
/// no slot is free, or a burst is being released.
#[derive(Debug)]
struct QueueState {
    pods: PodSet,
    slots: PodSlots,
    /// A map, so that removal from the middle is cheap when a client disconnects.
    waiting: BTreeMap<QueuePosition, oneshot::Sender<SlotPermit>>,
    next_ticket: u64,
    /// Requests that may wait.
    bound: usize,
    /// Requests that were granted a slot and have not run since.
    granted: usize,
    /// Whether more requests wait only for those tasks to run.
    is_burst: bool,
}

/// Orders requests by arrival, then by ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct QueuePosition {
    arrived: Instant,
    ticket: u64,
}

/// A waiting request. Its position is dropped before its receiver, so that no slot is granted to a
/// closed channel.
struct QueuedRequest<'a> {
    queue: &'a Arc<SlotQueue>,
    position: QueuePosition,
    slot: oneshot::Receiver<SlotPermit>,
}

/// Slots, and the requests that are to have them.
type Grants = Vec<(oneshot::Sender<SlotPermit>, SlotPermit)>;

/// A slot on a pod. Released when dropped.
pub struct SlotPermit {
    queue: Arc<SlotQueue>,
    pod: Arc<PodTracker>,
    /// `None` without a container concurrency.
    used: Option<UsedSlot>,
    waited: bool,
    /// Whether it was granted to a waiting request that has not run since.
    is_granted: bool,
}

// === impl SlotQueue ===

impl SlotQueue {
    /// A queue in which at most `bound` requests wait.
    pub(crate) fn new(slots: PodSlots, bound: usize) -> Arc<Self> {
        let state = QueueState {
            pods: PodSet::default(),
            slots,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            bound,
            granted: 0,
            is_burst: false,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// A slot, if one is free and no request waits.
    pub fn try_acquire(self: &Arc<Self>) -> Option<SlotPermit> {
        self.lock().try_acquire(self)
    }

    /// Waits for a slot, in the order of arrival. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// [`QueueFull`], without waiting, if the queue is full.
    pub async fn acquire(self: &Arc<Self>, arrived: Instant) -> Result<SlotPermit, QueueFull> {
        let (mut request, bound) = {
            let mut state = self.lock();
            if let Some(slot) = state.try_acquire(self) {
                return Ok(slot);
            }
            let bound = state.bound;
            if state.waiting.len() >= bound {
                return Err(QueueFull { bound });
            }
            let (position, slot) = state.enqueue(arrived);
            state.publish_waiting();
            (QueuedRequest { queue: self, position, slot }, bound)
        };
        // The sender is dropped unsent only by the queued request itself, which lives in this very
        // future.
        (&mut request.slot).await.map_err(|_| QueueFull { bound })
    }

    /// Changes the pods, and grants the slots that this frees.
    pub fn change_pods<T>(self: &Arc<Self>, change: impl FnOnce(&mut PodSet) -> T) -> T {
        self.update_and_grant(|state| {
            let result = change(&mut state.pods);
            state.slots.refresh(&state.pods);
            result
        })
    }

    /// Reads the pods, or changes what no slot depends on.
    pub fn with_pods<T>(&self, read: impl FnOnce(&mut PodSet) -> T) -> T {
        read(&mut self.lock().pods)
    }

    /// Whether requests wait and the workload has no pod, not even one that takes no requests yet.
    pub(crate) fn is_stranded(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() && state.pods.addresses().next().is_none()
    }

    /// Applies a new state of the workload, with a new bound; requests that wait already keep
    /// waiting.
    pub fn set_workload(self: &Arc<Self>, workload: &Workload, bound: usize) {
        self.update_and_grant(|state| {
            state.bound = bound;
            state.slots.set_workload(workload);
            state.slots.refresh(&state.pods);
        });
    }

    /// Sets the other activators.
    pub(crate) fn set_peers(self: &Arc<Self>, peers: Arc<SlotPeers>) {
        self.update_and_grant(|state| {
            state.slots.set_peers(peers);
            state.slots.refresh(&state.pods);
        });
    }

    /// Applies a message of another activator.
    pub(crate) fn receive(self: &Arc<Self>, from: LinkId, message: SlotMessage<IpAddr>) {
        self.update_and_grant(|state| state.slots.receive(from, message));
    }

    /// Applies a change that may free slots, and grants them. The tasks are woken after the lock is
    /// released: a wake-up may drop a task that holds a permit of this very queue.
    fn update_and_grant<T>(self: &Arc<Self>, update: impl FnOnce(&mut QueueState) -> T) -> T {
        let (result, grants) = {
            let mut state = self.lock();
            let result = update(&mut state);
            (result, state.grant(self))
        };
        deliver(grants);
        result
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }
}

fn deliver(grants: Grants) {
    for (request, slot) in grants {
        let _ = request.send(slot);
    }
}

// === impl QueueState ===

impl QueueState {
    fn try_acquire(&mut self, queue: &Arc<SlotQueue>) -> Option<SlotPermit> {
        if !self.waiting.is_empty() {
            return None;
        }
        self.slots.take(&self.pods).map(|(pod, used)| SlotPermit::new(queue, pod, used, false))
    }

    fn enqueue(&mut self, arrived: Instant) -> (QueuePosition, oneshot::Receiver<SlotPermit>) {
        let position = QueuePosition { arrived, ticket: self.next_ticket };
        self.next_ticket += 1;
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(position, sender);
        (position, receiver)
    }

    /// Takes free slots for the first requests of the queue, up to [`MAX_GRANTED`]. If nothing more
    /// can be granted, sends the number of requests that still wait to the other activators.
    fn grant(&mut self, queue: &Arc<SlotQueue>) -> Grants {
        let mut grants = Vec::new();
        while self.granted < MAX_GRANTED
            && let Some(first) = self.waiting.first_entry()
            && let Some((pod, used)) = self.slots.take(&self.pods)
        {
            grants.push((first.remove(), SlotPermit::new(queue, pod, used, true)));
            self.granted += 1;
        }
        self.is_burst = self.granted >= MAX_GRANTED && !self.waiting.is_empty();
        if !self.is_burst {
            self.publish_waiting();
        }
        grants
    }

    /// The task of a granted request has run, or was cancelled.
    fn granted_has_run(&mut self, queue: &Arc<SlotQueue>) -> Grants {
        self.granted = self.granted.saturating_sub(1);
        if self.is_burst && self.granted <= MAX_GRANTED / 2 { self.grant(queue) } else { Vec::new() }
    }

    fn publish_waiting(&mut self) {
        let oldest = self.waiting.first_key_value().map(|(position, _)| position.arrived);
        self.slots.publish_waiting(self.waiting.len(), oldest);
    }
}

// === impl QueuedRequest ===

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        // Otherwise the request was granted a slot, which is released with the receiver unless the
        // slot was taken out of the receiver.
        if state.waiting.remove(&self.position).is_some() {
            state.publish_waiting();
        }
    }
}

// === impl SlotPermit ===

impl SlotPermit {
    fn new(queue: &Arc<SlotQueue>, pod: Arc<PodTracker>, used: Option<UsedSlot>, waited: bool) -> Self {
        pod.enter();
        Self { queue: queue.clone(), pod, used, waited, is_granted: waited }
    }

    pub fn pod(&self) -> &Arc<PodTracker> {
        &self.pod
    }

    /// Whether the request had to wait for it.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// Notes that the request's task runs, so that the next requests of a burst can be granted
    /// slots.
    pub fn mark_running(&mut self) {
        if std::mem::take(&mut self.is_granted) {
            let grants = self.queue.lock().granted_has_run(&self.queue);
            deliver(grants);
        }
    }
}

impl Drop for SlotPermit {
    fn drop(&mut self) {
        self.pod.leave();
        self.mark_running();
        if let Some(used) = self.used.take() {
            self.queue.update_and_grant(|state| state.slots.release(used));
        }
    }
}

impl fmt::Debug for SlotPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotPermit").field("pod", &self.pod).field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
