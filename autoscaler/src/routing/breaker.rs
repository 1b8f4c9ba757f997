//! Breaker: how many requests may run at a time, and how many more may wait for it.
//!
//! The queue-proxy holds one in front of its app (limit: the container concurrency); the activator holds one per workload
//! (limit: what its pods can take, which is 0 while there is none) and one per pod. The limit changes while requests run:
//! lowering it interrupts nobody, raising it lets waiters in.
//!
//! Waiters are served strictly first come, first served; a newcomer never overtakes them. A slot is handed over inside
//! the lock, so none can be lost between its release and the waiter's wake-up, and a waiter that is dropped after it was
//! given its slot, but before it ran, passes the slot on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A concurrency limit with a bounded queue in front of it. Clones share one limit and one queue.
#[derive(Clone)]
pub struct Breaker {
    shared: Arc<Shared>,
}

/// How many permits a [`Breaker`] hands out at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// No limit: nobody waits, requests are only counted.
    Unlimited,
    /// At most so many. `AtMost(0)` is "no capacity yet": everybody waits.
    AtMost(usize),
}

/// The right to run one request. Gives its slot to the next waiter when dropped.
#[must_use = "a permit that is dropped at once limits nothing"]
pub struct BreakerPermit {
    shared: Arc<Shared>,
}

/// As many callers wait already as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {bound} requests are waiting")]
pub struct QueueFull {
    /// How many may wait.
    pub bound: usize,
}

struct Shared {
    queue_bound: usize,
    state: Mutex<State>,
}

/// Invariant, whenever the lock is free and no `set_limit` is under way: `waiting` is empty or `in_flight >= limit`.
struct State {
    limit: ConcurrencyLimit,
    in_flight: usize,
    /// By ticket, which is the order of arrival. A map, so that a caller that goes away leaves from the middle cheaply.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    next_ticket: u64,
}

/// A caller's place in the queue, or the slot it was given and has not taken up yet.
struct Waiter<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
}

// === impl Breaker ===

impl Breaker {
    /// A breaker whose queue holds at most `queue_bound` callers; with 0 nobody waits.
    pub fn new(limit: ConcurrencyLimit, queue_bound: usize) -> Self {
        let state = State { limit, in_flight: 0, waiting: BTreeMap::new(), next_ticket: 0 };
        Self { shared: Arc::new(Shared { queue_bound, state: Mutex::new(state) }) }
    }

    /// Waits for a slot. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// [`QueueFull`], without waiting, if nobody more may wait.
    pub async fn acquire(&self) -> Result<BreakerPermit, QueueFull> {
        let (waiter, granted) = {
            let mut state = self.shared.lock();
            if state.take_slot() {
                return Ok(self.shared.permit());
            }
            if state.waiting.len() >= self.shared.queue_bound {
                return Err(QueueFull { bound: self.shared.queue_bound });
            }
            let (ticket, granted) = state.enqueue();
            (Waiter { shared: &self.shared, ticket }, granted)
        };
        // The sender is dropped unsent only by the waiter itself, which lives in this very future.
        let _ = granted.await;
        Ok(waiter.into_permit())
    }

    /// Takes a slot if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<BreakerPermit> {
        self.shared.lock().take_slot().then(|| self.shared.permit())
    }

    /// Changes the limit. Running requests go on even above a lower one; waiters enter up to a higher one.
    pub fn set_limit(&self, limit: ConcurrencyLimit) {
        self.shared.lock().limit = limit;
        while let Some(slot) = self.shared.grant() {
            let _ = slot.send(());
        }
    }

    /// The limit in force.
    pub fn limit(&self) -> ConcurrencyLimit {
        self.shared.lock().limit
    }

    /// Permits that are out.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().in_flight
    }

    /// Callers that wait.
    pub fn queued(&self) -> usize {
        self.shared.lock().waiting.len()
    }
}

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Breaker")
            .field("limit", &state.limit)
            .field("in_flight", &state.in_flight)
            .field("queued", &state.waiting.len())
            .field("queue_bound", &self.shared.queue_bound)
            .finish()
    }
}

// === impl ConcurrencyLimit ===

impl ConcurrencyLimit {
    /// Reads a container concurrency, in which 0 means no limit.
    pub fn of_container_concurrency(value: u32) -> Self {
        match value {
            0 => Self::Unlimited,
            n => Self::AtMost(n as usize),
        }
    }

    fn admits(self, in_flight: usize) -> bool {
        match self {
            Self::Unlimited => true,
            Self::AtMost(limit) => in_flight < limit,
        }
    }
}

// === impl BreakerPermit ===

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        self.shared.release();
    }
}

impl fmt::Debug for BreakerPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BreakerPermit").finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn permit(self: &Arc<Self>) -> BreakerPermit {
        BreakerPermit { shared: Arc::clone(self) }
    }

    /// Gives a free slot to whoever waits longest. The caller wakes them after the lock is gone: a waker may drop a task
    /// that holds a permit of this very breaker.
    fn grant(&self) -> Option<oneshot::Sender<()>> {
        self.lock().grant()
    }

    fn release(&self) {
        let next = {
            let mut state = self.lock();
            state.in_flight = state.in_flight.saturating_sub(1);
            state.grant()
        };
        if let Some(slot) = next {
            let _ = slot.send(());
        }
    }
}

// === impl State ===

impl State {
    fn take_slot(&mut self) -> bool {
        let free = self.waiting.is_empty() && self.limit.admits(self.in_flight);
        self.in_flight += usize::from(free);
        free
    }

    fn enqueue(&mut self) -> (u64, oneshot::Receiver<()>) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let (slot, granted) = oneshot::channel();
        self.waiting.insert(ticket, slot);
        (ticket, granted)
    }

    fn grant(&mut self) -> Option<oneshot::Sender<()>> {
        if !self.limit.admits(self.in_flight) {
            return None;
        }
        let (_, slot) = self.waiting.pop_first()?;
        self.in_flight += 1;
        Some(slot)
    }
}

// === impl Waiter ===

impl Waiter<'_> {
    fn into_permit(self) -> BreakerPermit {
        let permit = self.shared.permit();
        std::mem::forget(self);
        permit
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let still_queued = self.shared.lock().waiting.remove(&self.ticket).is_some();
        if !still_queued {
            self.shared.release();
        }
    }
}

#[cfg(test)]
mod tests;
