//! Breaker: a limit on concurrent requests with a bounded queue.
//!
//! queue-proxy has one breaker for its app; its limit is the container concurrency.
//!
//! The slots are the permits of tokio's semaphore. Its queue is strictly first in, first out; a new
//! request never overtakes. A released slot passes to the next waiter under the semaphore's lock,
//! and a waiter that is dropped after it got its slot passes the slot on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A concurrency limit behind a bounded queue. Clones share one limit and one queue.
#[derive(Clone, Debug)]
pub struct Breaker {
    slots: Arc<Semaphore>,
    limit: usize,
    places: Arc<Places>,
}

/// Maximum number of concurrent permits of a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConcurrencyLimit {
    /// No limit: requests are counted but never wait.
    Unlimited,
    /// At most this number.
    AtMost(usize),
}

/// Permit to run one request. Passes its slot to the next waiter on drop.
#[derive(Debug)]
#[must_use = "a permit that is dropped at once has no effect"]
pub struct BreakerPermit {
    // Dropped before the slot, so that a request that sees the slot free finds a place.
    _place: Place,
    _slot: OwnedSemaphorePermit,
}

/// Error if the queue is at its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full: {bound} requests are waiting")]
pub struct QueueFull {
    /// Maximum number of waiting requests.
    pub bound: usize,
}

/// The requests that run or wait.
#[derive(Debug)]
struct Places {
    taken: AtomicUsize,
    /// The limit and the bound of the queue.
    bound: usize,
}

/// The place of a request that runs or waits.
#[derive(Debug)]
struct Place(Arc<Places>);

// === impl Breaker ===

impl Breaker {
    /// A breaker with at most `queue_bound` waiting requests; with 0, requests never wait.
    pub fn new(limit: ConcurrencyLimit, queue_bound: usize) -> Self {
        let limit = match limit {
            ConcurrencyLimit::Unlimited => Semaphore::MAX_PERMITS,
            ConcurrencyLimit::AtMost(limit) => limit.min(Semaphore::MAX_PERMITS),
        };
        let places = Places { taken: AtomicUsize::new(0), bound: limit.saturating_add(queue_bound) };
        Self { slots: Arc::new(Semaphore::new(limit)), limit, places: Arc::new(places) }
    }

    /// Waits for a slot. Dropping the future leaves the queue at once.
    ///
    /// # Errors
    /// Returns [`QueueFull`] without waiting if the queue is full.
    pub async fn acquire(&self) -> Result<BreakerPermit, QueueFull> {
        let full = QueueFull { bound: self.places.bound - self.limit };
        let place = Place::take(&self.places).ok_or(full)?;
        // The semaphore is never closed.
        let slot = self.slots.clone().acquire_owned().await.map_err(|_| full)?;
        Ok(BreakerPermit { _place: place, _slot: slot })
    }

    /// Takes a slot if one is free and no request waits for it.
    pub fn try_acquire(&self) -> Option<BreakerPermit> {
        let place = Place::take(&self.places)?;
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        Some(BreakerPermit { _place: place, _slot: slot })
    }

    /// Number of permits in use.
    pub fn in_flight(&self) -> usize {
        self.limit - self.slots.available_permits()
    }

    /// Number of waiting requests.
    pub fn queued(&self) -> usize {
        self.places.taken.load(Ordering::Relaxed).saturating_sub(self.in_flight())
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
}

// === impl Place ===

impl Place {
    /// `None` if all are taken.
    fn take(places: &Arc<Places>) -> Option<Self> {
        let next = |taken: usize| (taken < places.bound).then_some(taken + 1);
        places.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        Some(Self(Arc::clone(places)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
