//! Breaker: a limit on concurrent requests with a bounded queue.
//!
//! queue-proxy has one breaker for its app; its limit is the container concurrency. The activator
//! has one for each workload, limited by the capacity of its pods (0 without pods), and one for
//! each pod. The limit can change at any time: a lower limit does not interrupt running requests, a
//! higher one admits waiting requests.
//!
//! The queue is strictly first in, first out; a new request never overtakes. A slot passes to the
//! next waiter under the lock, so it cannot be lost between release and wake-up. A waiter that is
//! dropped after it got its slot passes the slot on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// A concurrency limit behind a bounded queue. Clones share one limit and one queue.
#[derive(Clone)]
pub struct Breaker {
    shared: Arc<Shared>,
}

/// Maximum number of concurrent permits of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// No limit: requests are counted but never wait.
    Unlimited,
    /// At most this number. `AtMost(0)` means no capacity yet: all requests wait.
    AtMost(usize),
}

/// Permit to run one request. Passes its slot to the next waiter on drop.
#[must_use = "a permit that is dropped at once has no effect"]
pub struct BreakerPermit {
    shared: Arc<Shared>,
}

/// Error if the queue is at its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {bound} requests are waiting")]
pub struct QueueFull {
    /// Maximum number of waiting requests.
    pub bound: usize,
}

struct Shared {
    queue_bound: usize,
    state: Mutex<State>,
}

/// Invariant while the lock is free and no `set_limit` is running: `waiting` is empty or
/// `in_flight >= limit`.
struct State {
    limit: ConcurrencyLimit,
    in_flight: usize,
    /// By ticket, in order of arrival. A map, so that removal of a cancelled request is cheap.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    next_ticket: u64,
}

/// A request's position in the queue, or a granted slot that its future has not taken yet.
struct Waiter<'a> {
    shared: &'a Arc<Shared>,
    ticket: u64,
}

// === impl Breaker ===

impl Breaker {
    /// A breaker with at most `queue_bound` waiting requests; with 0, requests never wait.
    pub fn new(limit: ConcurrencyLimit, queue_bound: usize) -> Self {
        let state = State { limit, in_flight: 0, waiting: BTreeMap::new(), next_ticket: 0 };
        Self { shared: Arc::new(Shared { queue_bound, state: Mutex::new(state) }) }
    }

    /// Waits for a slot. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// Returns [`QueueFull`] without waiting if the queue is full.
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
        // Only the waiter drops the sender without sending, and this future owns the waiter.
        let _ = granted.await;
        Ok(waiter.into_permit())
    }

    /// Takes a slot if one is free and no request waits for it.
    pub fn try_acquire(&self) -> Option<BreakerPermit> {
        self.shared.lock().take_slot().then(|| self.shared.permit())
    }

    /// Changes the limit. Running requests continue above a lower limit; waiters are admitted up to
    /// a higher one.
    pub fn set_limit(&self, limit: ConcurrencyLimit) {
        self.shared.lock().limit = limit;
        while let Some(slot) = self.shared.grant() {
            let _ = slot.send(());
        }
    }

    /// The limit in effect.
    pub fn limit(&self) -> ConcurrencyLimit {
        self.shared.lock().limit
    }

    /// Number of permits in use.
    pub fn in_flight(&self) -> usize {
        self.shared.lock().in_flight
    }

    /// Number of waiting requests.
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
    /// Converts a container concurrency, in which 0 means no limit.
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

    /// Grants a free slot to the oldest waiter. The caller must wake it after the lock is released:
    /// a waker may drop a task that holds a permit of the same breaker.
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
