//! What `proxy/src/sync.rs` has, of loom, and a clock that each thread sets.

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;

pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};

loom::thread_local! {
    static MILLISECONDS: Cell<u64> = Cell::new(0);
}

/// Sets the clock of this thread, in milliseconds.
pub fn set_time(milliseconds: u64) {
    MILLISECONDS.with(|now| now.set(milliseconds));
}

/// The beginning of time.
#[derive(Clone, Copy, Debug)]
pub struct Instant;

/// With the signatures of the crate futures.
pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

/// A lock without poison, as parking_lot's.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

// === impl Instant ===

impl Instant {
    pub fn now() -> Self {
        Self
    }

    pub(crate) fn elapsed(self) -> Duration {
        Duration::from_millis(MILLISECONDS.with(Cell::get))
    }
}

// === impl AtomicWaker ===

impl AtomicWaker {
    pub(crate) fn new() -> Self {
        Self(loom::future::AtomicWaker::new())
    }

    pub(crate) fn register(&self, waker: &Waker) {
        self.0.register_by_ref(waker);
    }

    pub(crate) fn wake(&self) {
        self.0.wake();
    }
}

// === impl Mutex ===

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
