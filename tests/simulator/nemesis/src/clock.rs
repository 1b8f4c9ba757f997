//! The wall clocks of the processes: virtual time since the start of a run, and an offset of each.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use zero_scaler::clock::Clock;

/// When every run begins, in Unix milliseconds.
const BEGIN: i64 = 1_790_000_000_000;

thread_local! {
    /// Of the metrics-adapter. Its clock is a function without a state, so a thread has one run.
    static ADAPTER: Cell<Option<(Instant, i64)>> = const { Cell::new(None) };
}

/// The wall clock of one process.
#[derive(Clone, Debug)]
pub struct WallClock {
    began: Instant,
    /// In milliseconds.
    offset: Arc<AtomicI64>,
}

// === impl WallClock ===

impl WallClock {
    /// A clock without an offset, in a run that began at `began`.
    pub fn new(began: Instant) -> Self {
        Self { began, offset: Arc::default() }
    }

    /// Steps the clock by milliseconds.
    pub fn step(&self, by: i64) {
        self.offset.fetch_add(by, Ordering::Relaxed);
    }

    /// Unix milliseconds.
    pub fn millis(&self) -> i64 {
        millis(self.began, self.offset.load(Ordering::Relaxed))
    }

    /// The clock as an argument of a zero-scaler.
    pub fn of_zero_scaler(&self) -> Clock {
        let clock = self.clone();
        Clock::by(move || jiff::Timestamp::from_millisecond(clock.millis()).unwrap())
    }

    /// Makes [`adapter_wall`] read this clock as it is now.
    pub fn set_adapter(&self) {
        ADAPTER.set(Some((self.began, self.offset.load(Ordering::Relaxed))));
    }
}

/// The wall clock of the metrics-adapter of this thread.
pub fn adapter_wall() -> Duration {
    let (began, offset) = ADAPTER.get().expect("a run has begun");
    Duration::from_millis(millis(began, offset).unsigned_abs())
}

fn millis(began: Instant, offset: i64) -> i64 {
    BEGIN + i64::try_from(began.elapsed().as_millis()).unwrap() + offset
}
