//! RequestCounter: which requests are here, from their arrival to the end of their response body.
//!
//! The handler enters every request before it may have to wait, so queued requests count as concurrency. The reporter
//! reads the counter each second, the drain asks whether anything is still here. Connections that are not HTTP's are counted
//! among them, each as one while bytes flow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::breaker::Permit;
use autoscaler::stats::{Report, RequestStats};
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};

use crate::metrics::{Metrics, Outcome};

/// Counts the requests that are here. One lock, held for a few additions.
#[derive(Debug)]
pub(crate) struct RequestCounter {
    counted: Mutex<Counted>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Counted {
    stats: RequestStats,
    last_arrival: Instant,
}

/// One request that is here. It is over when this is dropped, which is why it travels in the response's body.
#[derive(Debug)]
pub(crate) struct InFlight {
    counter: Arc<RequestCounter>,
    arrived: Instant,
    proxied: bool,
    outcome: Outcome,
    permit: Option<Permit>,
}

/// A connection, while bytes flow or it waits.
#[derive(Debug)]
pub(crate) struct Flowing {
    counter: Arc<RequestCounter>,
    proxied: bool,
}

// === impl RequestCounter ===

impl RequestCounter {
    /// Counts from `now`, which is `into_second` after a whole second. The first period begins with that second, in which
    /// the requests before `now` went to other pods: an average over the part alone would count that load twice.
    pub(crate) fn new(now: Instant, into_second: Duration, metrics: Metrics) -> Self {
        let stats = RequestStats::new(now.checked_sub(into_second).unwrap_or(now));
        Self { counted: Mutex::new(Counted { stats, last_arrival: now }), metrics }
    }

    /// A request arrived; `proxied` if an activator sent it.
    pub(crate) fn enter(self: &Arc<Self>, proxied: bool) -> InFlight {
        let arrived = self.arrive(proxied);
        InFlight { counter: self.clone(), arrived, proxied, outcome: Outcome::Cancelled, permit: None }
    }

    /// Bytes flow over a connection; `proxied` if it comes through an activator.
    pub(crate) fn flow(self: &Arc<Self>, proxied: bool) -> Flowing {
        self.arrive(proxied);
        Flowing { counter: self.clone(), proxied }
    }

    fn arrive(&self, proxied: bool) -> Instant {
        let now = now();
        let mut counted = self.lock();
        counted.stats.request_in(now, proxied);
        counted.last_arrival = now;
        now
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.lock().stats.in_flight()
    }

    /// When the last request came, or the process started.
    pub(crate) fn last_arrival(&self) -> Instant {
        self.lock().last_arrival
    }

    /// Ends the reporting period.
    pub(crate) fn report(&self, now: Instant) -> Report {
        self.lock().stats.report(now)
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock()
    }
}

// === impl InFlight ===

impl InFlight {
    /// The request got a slot of the app; the slot is free again when the request is over.
    pub(crate) fn admitted(&mut self, permit: Permit) {
        self.permit = Some(permit);
    }

    /// When the request came.
    pub(crate) fn arrived(&self) -> Instant {
        self.arrived
    }

    /// The head of the response is known.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        self.outcome = Outcome::of(status);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let now = now();
        self.counter.lock().stats.request_out(now, self.proxied);
        self.counter.metrics.ended(self.outcome, now.saturating_duration_since(self.arrived));
    }
}

// === impl Flowing ===

impl Drop for Flowing {
    fn drop(&mut self) {
        self.counter.lock().stats.request_out(now(), self.proxied);
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod accounting;
