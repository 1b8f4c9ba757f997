//! RequestCounter: counts requests from their arrival to the end of their response body.
//!
//! The handler enters a request before it may be queued, so queued requests count as concurrency. A
//! connection of an app that does not use HTTP counts as one request while bytes flow or it waits.
//! The stats endpoint reads the counter each second, and the drain waits until it is zero.
//!
//! The time in the app begins when the request leaves the queue. It is counted under the same lock
//! as the end of the request, so a request that was never queued needs no further instant.

use std::sync::Arc;
use std::time::{Duration, Instant};

use autoscaler::routing::breaker::BreakerPermit;
use autoscaler::stats::{AppStat, EndedRequests, RequestProgress, RequestStats, RequestStatsReport};
use http::StatusCode;
use parking_lot::Mutex;
use proxy::timeouts::response_body::ResponseGuard;

use super::metrics::{Metrics, RequestOutcome};

/// Time without an arrival or a request in flight after which the pod is idle.
const IDLE: Duration = Duration::from_secs(1);

/// The requests in the sidecar. One lock, held for a few additions.
#[derive(Debug)]
pub(crate) struct RequestCounter {
    counts: Mutex<RequestCounts>,
    metrics: Metrics,
}

#[derive(Debug)]
struct RequestCounts {
    stats: RequestStats,
    ended: EndedRequests,
    last_arrival: Instant,
}

/// A request in the sidecar. It ends when this is dropped, so the response body owns it.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    counter: Arc<RequestCounter>,
    arrived: Instant,
    proxied: bool,
    ended_idleness: bool,
    outcome: RequestOutcome,
    permit: Option<BreakerPermit>,
    /// Since when the app has it; in the queue, the arrival.
    in_app: Instant,
    progress: RequestProgress,
}

/// A TCP connection while bytes flow or it waits.
#[derive(Debug)]
pub(crate) struct ActiveConnection {
    counter: Arc<RequestCounter>,
    proxied: bool,
}

// === impl RequestCounter ===

impl RequestCounter {
    /// Counts from `now`, which is `into_second` after a whole second.
    ///
    /// The first period begins at that whole second. Before `now` its requests went to other pods,
    /// so an average over the remainder alone would count their load twice.
    pub(crate) fn new(now: Instant, into_second: Duration, metrics: Metrics) -> Self {
        let stats = RequestStats::new(now.checked_sub(into_second).unwrap_or(now));
        let counts = RequestCounts { stats, ended: EndedRequests::default(), last_arrival: now };
        Self { counts: Mutex::new(counts), metrics }
    }

    /// Enters a request that has arrived; `proxied` if an activator sent it.
    pub(crate) fn enter(self: &Arc<Self>, proxied: bool) -> InFlightRequest {
        let (arrived, ended_idleness) = self.count_arrival(proxied);
        InFlightRequest {
            counter: self.clone(),
            arrived,
            proxied,
            ended_idleness,
            outcome: RequestOutcome::Cancelled,
            permit: None,
            in_app: arrived,
            progress: RequestProgress::default(),
        }
    }

    /// Enters a TCP connection on which bytes flow; `proxied` if it comes through an activator.
    pub(crate) fn enter_connection(self: &Arc<Self>, proxied: bool) -> ActiveConnection {
        self.count_arrival(proxied);
        ActiveConnection { counter: self.clone(), proxied }
    }

    /// Returns the time of the arrival, and whether the pod was idle until then.
    fn count_arrival(&self, proxied: bool) -> (Instant, bool) {
        let now = now();
        let mut counts = self.counts.lock();
        let was_quiet = now.saturating_duration_since(counts.last_arrival) >= IDLE;
        let was_idle = was_quiet && counts.stats.in_flight() == 0;
        counts.stats.request_in(now, proxied);
        counts.last_arrival = now;
        (now, was_idle)
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.counts.lock().stats.in_flight()
    }

    /// Time of the last arrival, or of the process's start.
    pub(crate) fn last_arrival(&self) -> Instant {
        self.counts.lock().last_arrival
    }

    /// Ends the reporting period. The next one has this latency objective.
    pub(crate) fn report(
        &self,
        now: Instant,
        next_objective: Option<Duration>,
    ) -> (RequestStatsReport, AppStat) {
        let mut counts = self.counts.lock();
        let requests = counts.stats.report(now);
        let app = counts.ended.report(requests.period, next_objective);
        (requests, app)
    }
}

// === impl InFlightRequest ===

impl InFlightRequest {
    /// Keeps the permit of the app's slot until the request ends.
    pub(crate) fn hold(&mut self, permit: BreakerPermit) {
        self.permit = Some(permit);
    }

    /// Begins the time in the app: at the arrival, or when the request left the queue.
    pub(crate) fn enter_app(&mut self, since: Instant) {
        self.in_app = since;
        self.progress = RequestProgress::Sent;
    }

    /// The connection was upgraded: the rest is not a response, and has no time in the app.
    pub(crate) fn leave_app(&mut self) {
        self.progress = RequestProgress::Untimed;
    }

    /// Whether the pod was idle until this request arrived straight from its client.
    pub(crate) fn ended_idleness(&self) -> bool {
        self.ended_idleness && !self.proxied
    }

    /// Time of the request's arrival.
    pub(crate) fn arrived(&self) -> Instant {
        self.arrived
    }

    /// Sets the response's status; without one the request counts as cancelled.
    pub(crate) fn set_status(&mut self, status: StatusCode) {
        self.outcome = RequestOutcome::of_status(status);
        self.progress.respond(self.outcome == RequestOutcome::ServerError);
    }
}

impl ResponseGuard for InFlightRequest {
    fn end(mut self, failed: bool) {
        self.progress.complete(failed);
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let now = now();
        let end = self.progress.end(now.saturating_duration_since(self.in_app));
        {
            let mut counts = self.counter.counts.lock();
            counts.stats.request_out(now, self.proxied);
            if let Some(end) = end {
                counts.ended.record(end);
            }
        }
        self.counter.metrics.count(self.outcome, now.saturating_duration_since(self.arrived));
    }
}

// === impl ActiveConnection ===

impl Drop for ActiveConnection {
    fn drop(&mut self) {
        self.counter.counts.lock().stats.request_out(now(), self.proxied);
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod accounting;
#[cfg(test)]
mod app_time;
#[cfg(test)]
mod idleness;
