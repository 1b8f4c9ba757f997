//! Concurrency of a process, weighted by time, and the number of requests that arrived.
//!
//! Input: one event when a request arrives and one when its response body ends, from the
//! queue-proxy and the activator. Output: a report once a second. Requests in flight carry over, so
//! a request that lasts ten periods counts 1 in each of them.
//!
//! The law: average times period is the sum, over all requests, of the time that each was in flight
//! in that period. It holds to the nanosecond for events in any order, as long as a request's
//! arrival comes before its end. Events overtake each other because their instants are taken before
//! the lock. An event only adds or subtracts the part of the period before it, and the order of
//! sums does not matter.
//!
//! What surprises: a report is final. An event with an instant before the report's period counts as
//! if it came at the start of the period. A period ends with the latest instant of any event, even
//! if the report itself has an earlier one.

use std::time::{Duration, Instant};

/// Time-weighted counter of requests in flight.
#[derive(Clone, Debug)]
pub struct RequestStats {
    /// Start of the period.
    since: Instant,
    /// The latest instant of any event, not before `since`.
    latest: Instant,
    all: Flow,
    proxied: Flow,
}

/// The statistics of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestStatsReport {
    /// Requests in flight, averaged over the period; includes the proxied ones.
    pub average_concurrency: f64,
    /// The part that an activator forwarded.
    pub average_proxied_concurrency: f64,
    /// Requests that arrived in the period; includes the proxied ones.
    pub request_count: u64,
    /// The part that an activator forwarded.
    pub proxied_request_count: u64,
    /// Length of the period.
    pub period: Duration,
}

/// One class of requests.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    in_flight: u64,
    arrived: u64,
    /// Parts of the period before each end, less the parts before each arrival, in nanoseconds.
    /// Plus the whole period for each request in flight, it is the total time in flight.
    nanos: i128,
}

// === impl RequestStats ===

impl RequestStats {
    /// A counter whose first period starts at `now`.
    pub fn new(now: Instant) -> Self {
        Self { since: now, latest: now, all: Flow::default(), proxied: Flow::default() }
    }

    /// A request arrived.
    pub fn request_in(&mut self, now: Instant, proxied: bool) {
        let passed = self.passed(now);
        self.all.enter(passed);
        if proxied {
            self.proxied.enter(passed);
        }
    }

    /// The response body of a request has ended, failed or been dropped.
    pub fn request_out(&mut self, now: Instant, proxied: bool) {
        let passed = self.passed(now);
        self.all.leave(passed);
        if proxied {
            self.proxied.leave(passed);
        }
    }

    pub fn in_flight(&self) -> u64 {
        self.all.in_flight
    }

    /// Ends the period at `now` and starts the next.
    pub fn report(&mut self, now: Instant) -> RequestStatsReport {
        self.passed(now);
        let period = self.latest.saturating_duration_since(self.since);
        self.since = self.latest;
        RequestStatsReport {
            average_concurrency: self.all.take_average(period),
            average_proxied_concurrency: self.proxied.take_average(period),
            request_count: std::mem::take(&mut self.all.arrived),
            proxied_request_count: std::mem::take(&mut self.proxied.arrived),
            period,
        }
    }

    /// The part of the period before `now`.
    fn passed(&mut self, now: Instant) -> Duration {
        self.latest = self.latest.max(now);
        now.saturating_duration_since(self.since)
    }
}

// === impl Flow ===

impl Flow {
    fn enter(&mut self, passed: Duration) {
        self.in_flight += 1;
        self.arrived += 1;
        self.nanos -= nanos(passed);
    }

    fn leave(&mut self, passed: Duration) {
        // An end without an arrival would underflow.
        if self.in_flight > 0 {
            self.in_flight -= 1;
            self.nanos += nanos(passed);
        }
    }

    fn take_average(&mut self, period: Duration) -> f64 {
        let in_flight = std::mem::take(&mut self.nanos) + i128::from(self.in_flight) * nanos(period);
        if period.is_zero() { 0.0 } else { in_flight.max(0) as f64 / nanos(period) as f64 }
    }
}

fn nanos(time: Duration) -> i128 {
    // `u64` holds more than 500 years.
    i128::from(time.as_nanos() as u64)
}

#[cfg(test)]
mod tests;
