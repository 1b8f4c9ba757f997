//! SlotQueue: the requests of one workload that wait for a place on a pod, and the places.
//!
//! ```text
//!  try_take ──► a place is free and nobody waits ─────────────────────────────► Slot ──► dropped ─┐
//!  wait ─────► the end of the queue ─► a place became free, and all before it have theirs ─► Slot │
//!                                            ▲                                                    │
//!            pods, limits, neighbours ───────┴────────────────────────────────────────────────────┘
//! ```
//!
//! Strictly first come, first served; a newcomer never overtakes who waits, and who comes back because its pod was not
//! there has its turn by its arrival. A place is handed over inside the one lock, so
//! none is lost between its release and the waiter's wake-up, and a caller that leaves after it was given one, but
//! before it ran, passes it on. Whatever may free a place goes through `SlotQueue::after`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use autoscaler::breaker::QueueFull;
use autoscaler::slot_lending::Message;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::pod_set::PodSet;
use crate::pod_slots::{PodSlots, UsedSlot};
use crate::pod_tracker::PodTracker;
use crate::slot_exchange::{LinkId, Neighbours};
use crate::workloads::Workload;

/// Callers that have their places and did not run yet. Of a crowd the next ones follow when these had their turns: it must not
/// stand before the requests of other workloads, and finds the first ones' connections to the pods free again.
const ENTERING: usize = 64;

/// One workload's queue.
#[derive(Debug)]
pub struct SlotQueue {
    state: Mutex<State>,
}

/// Invariant, whenever the lock is free and no `after` is under way: nobody waits, no place is free, or a crowd enters.
#[derive(Debug)]
struct State {
    pods: PodSet,
    slots: PodSlots,
    /// A map, so that a caller that goes away leaves from the middle cheaply.
    waiting: BTreeMap<Turn, oneshot::Sender<Slot>>,
    next_ticket: u64,
    /// How many may wait.
    bound: usize,
    /// Those who were given a place and did not run yet.
    entering: usize,
    /// Whether others wait only until these have run.
    is_crowd: bool,
}

/// A caller's turn: by its arrival, and then by its ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    arrived: Instant,
    ticket: u64,
}

/// A caller's place in the queue. Its turn goes first: then nobody sends what nobody takes.
struct Waiter<'a> {
    queue: &'a Arc<SlotQueue>,
    turn: Turn,
    slot: oneshot::Receiver<Slot>,
}

/// Places, and the callers that are to have them.
type Granted = Vec<(oneshot::Sender<Slot>, Slot)>;

/// A place on a pod. Given back when dropped.
pub struct Slot {
    queue: Arc<SlotQueue>,
    pod: Arc<PodTracker>,
    /// Without a container concurrency there is none.
    used: Option<UsedSlot>,
    waited: bool,
    /// Whether it was given to one who waited, and who did not run yet.
    entering: bool,
}

// === impl SlotQueue ===

impl SlotQueue {
    /// A queue in which at most `bound` callers wait.
    pub(crate) fn new(slots: PodSlots, bound: usize) -> Arc<Self> {
        let state = State {
            pods: PodSet::default(),
            slots,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            bound,
            entering: 0,
            is_crowd: false,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// A place, if one is free and nobody waits for it.
    pub fn try_take(self: &Arc<Self>) -> Option<Slot> {
        self.lock().try_take(self)
    }

    /// Waits for a place, by when the request arrived. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// [`QueueFull`], without waiting, if nobody more may wait.
    pub async fn wait(self: &Arc<Self>, arrived: Instant) -> Result<Slot, QueueFull> {
        let (mut waiter, bound) = {
            let mut state = self.lock();
            if let Some(slot) = state.try_take(self) {
                return Ok(slot);
            }
            let bound = state.bound;
            if state.waiting.len() >= bound {
                return Err(QueueFull { bound });
            }
            let (turn, slot) = state.enqueue(arrived);
            state.settle();
            (Waiter { queue: self, turn, slot }, bound)
        };
        // The sender is dropped unsent only by the waiter itself, which lives in this very future.
        (&mut waiter.slot).await.map_err(|_| QueueFull { bound })
    }

    /// Changes the pods.
    pub fn change_pods<T>(self: &Arc<Self>, change: impl FnOnce(&mut PodSet) -> T) -> T {
        self.after(|state| {
            let outcome = change(&mut state.pods);
            state.slots.follow(&state.pods);
            outcome
        })
    }

    /// Looks at the pods, or changes what no request depends on.
    pub fn look_at_pods<T>(&self, look: impl FnOnce(&mut PodSet) -> T) -> T {
        look(&mut self.lock().pods)
    }

    /// Whether callers wait and there is no pod for them, not even one that takes no requests yet.
    pub(crate) fn is_stranded(&self) -> bool {
        let state = self.lock();
        !state.waiting.is_empty() && state.pods.addresses().next().is_none()
    }

    /// Takes a new state of the workload in, and how many callers may wait from now on: those who do, stay.
    pub fn set_workload(self: &Arc<Self>, workload: &Workload, bound: usize) {
        self.after(|state| {
            state.bound = bound;
            state.slots.set_workload(workload);
            state.slots.follow(&state.pods);
        });
    }

    /// Takes in which other activators there are.
    pub(crate) fn set_neighbours(self: &Arc<Self>, neighbours: Arc<Neighbours>) {
        self.after(|state| {
            state.slots.set_neighbours(neighbours);
            state.slots.follow(&state.pods);
        });
    }

    /// Hears another activator.
    pub(crate) fn hear(self: &Arc<Self>, from: LinkId, message: Message<IpAddr>) {
        self.after(|state| state.slots.hear(from, message));
    }

    /// Does what may free places, and gives them to those who wait. They wake when the lock is free: a waker may drop a task
    /// that holds a place of this very queue.
    fn after<T>(self: &Arc<Self>, event: impl FnOnce(&mut State) -> T) -> T {
        let (outcome, granted) = {
            let mut state = self.lock();
            let outcome = event(&mut state);
            (outcome, state.serve(self))
        };
        hand_out(granted);
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn hand_out(granted: Granted) {
    for (caller, slot) in granted {
        let _ = caller.send(slot);
    }
}

// === impl State ===

impl State {
    fn try_take(&mut self, queue: &Arc<SlotQueue>) -> Option<Slot> {
        if !self.waiting.is_empty() {
            return None;
        }
        self.slots.take(&self.pods).map(|(pod, used)| Slot::new(queue, pod, used, false))
    }

    fn enqueue(&mut self, arrived: Instant) -> (Turn, oneshot::Receiver<Slot>) {
        let turn = Turn { arrived, ticket: self.next_ticket };
        self.next_ticket += 1;
        let (slot, granted) = oneshot::channel();
        self.waiting.insert(turn, slot);
        (turn, granted)
    }

    /// The callers who wait longest with the places that are free, as many as may enter; and when that was all, tells the other
    /// activators what still waits.
    fn serve(&mut self, queue: &Arc<SlotQueue>) -> Granted {
        let mut granted = Vec::new();
        while self.entering < ENTERING
            && let Some(first) = self.waiting.first_entry()
            && let Some((pod, used)) = self.slots.take(&self.pods)
        {
            granted.push((first.remove(), Slot::new(queue, pod, used, true)));
            self.entering += 1;
        }
        self.is_crowd = self.entering >= ENTERING && !self.waiting.is_empty();
        if !self.is_crowd {
            self.settle();
        }
        granted
    }

    /// Somebody who was given a place has run, or will not.
    fn entered(&mut self, queue: &Arc<SlotQueue>) -> Granted {
        self.entering = self.entering.saturating_sub(1);
        if self.is_crowd && self.entering <= ENTERING / 2 { self.serve(queue) } else { Vec::new() }
    }

    fn settle(&mut self) {
        let oldest = self.waiting.first_key_value().map(|(turn, _)| turn.arrived);
        self.slots.settle(self.waiting.len(), oldest);
    }
}

// === impl Waiter ===

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        // Otherwise it has a place, which goes back with the receiver unless it was taken out of it.
        if state.waiting.remove(&self.turn).is_some() {
            state.settle();
        }
    }
}

// === impl Slot ===

impl Slot {
    fn new(queue: &Arc<SlotQueue>, pod: Arc<PodTracker>, used: Option<UsedSlot>, waited: bool) -> Self {
        pod.enter();
        Self { queue: queue.clone(), pod, used, waited, entering: waited }
    }

    /// The pod.
    pub fn pod(&self) -> &Arc<PodTracker> {
        &self.pod
    }

    /// Whether the request had to wait for it.
    pub fn waited(&self) -> bool {
        self.waited
    }

    /// The request runs. Of a crowd, the next may come in.
    pub fn run(&mut self) {
        if std::mem::take(&mut self.entering) {
            let granted = self.queue.lock().entered(&self.queue);
            hand_out(granted);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pod.leave();
        self.run();
        if let Some(used) = self.used.take() {
            self.queue.after(|state| state.slots.release(used));
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("pod", &self.pod).field("used", &self.used).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
