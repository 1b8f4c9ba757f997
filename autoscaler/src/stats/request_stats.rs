//! RequestStats: how many requests a process had at a time, weighted by time, and how many arrived.
//!
//! Fed by the queue-proxy and the activator with one event when a request arrives and one when its response body has ended.
//! Read once a second; what is in flight then carries over, so a request that lasts ten periods counts 1 in each of them.
//!
//! Events may carry instants that run backwards (they are taken before a lock is): such an event changes the count and
//! adds no time. The integral is over the last instant seen, so nothing is ever counted twice.

use std::time::{Duration, Instant};

/// Time-weighted counter of requests in flight.
#[derive(Clone, Debug)]
pub struct RequestStats {
    last_change: Instant,
    elapsed: Duration,
    all: Flow,
    proxied: Flow,
}

/// What happened since the report before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Report {
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
    /// Integral of `in_flight` over the period, in request seconds.
    request_seconds: f64,
}

// === impl RequestStats ===

impl RequestStats {
    /// A counter whose first period starts at `now`.
    pub fn new(now: Instant) -> Self {
        Self { last_change: now, elapsed: Duration::ZERO, all: Flow::default(), proxied: Flow::default() }
    }

    /// A request arrived.
    pub fn request_in(&mut self, now: Instant, proxied: bool) {
        self.advance(now);
        self.all.enter();
        if proxied {
            self.proxied.enter();
        }
    }

    /// The response body of a request has ended, failed or been dropped.
    pub fn request_out(&mut self, now: Instant, proxied: bool) {
        self.advance(now);
        self.all.leave();
        if proxied {
            self.proxied.leave();
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.all.in_flight
    }

    /// Ends the period at `now` and starts the next.
    pub fn report(&mut self, now: Instant) -> Report {
        self.advance(now);
        let period = std::mem::take(&mut self.elapsed);
        Report {
            average_concurrency: self.all.take_average(period),
            average_proxied_concurrency: self.proxied.take_average(period),
            request_count: std::mem::take(&mut self.all.arrived),
            proxied_request_count: std::mem::take(&mut self.proxied.arrived),
            period,
        }
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.last_change);
        self.last_change = self.last_change.max(now);
        self.elapsed += passed;
        self.all.pass(passed);
        self.proxied.pass(passed);
    }
}

// === impl Flow ===

impl Flow {
    fn enter(&mut self) {
        self.in_flight += 1;
        self.arrived += 1;
    }

    fn leave(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    fn pass(&mut self, time: Duration) {
        self.request_seconds += self.in_flight as f64 * time.as_secs_f64();
    }

    fn take_average(&mut self, period: Duration) -> f64 {
        let integral = std::mem::take(&mut self.request_seconds);
        if period.is_zero() { 0.0 } else { integral / period.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: (bool, bool) = (true, false);
    const OUT: (bool, bool) = (false, false);
    const PROXIED_IN: (bool, bool) = (true, true);
    const PROXIED_OUT: (bool, bool) = (false, true);

    /// Plays (milliseconds, (arrives, proxied)) events, then reports at each of `reports`, in order of time.
    #[allow(clippy::disallowed_methods, reason = "any instant will do as an origin")]
    fn play(events: &[(u64, (bool, bool))], reports: &[u64]) -> Vec<Report> {
        let start = Instant::now();
        let mut stats = RequestStats::new(start);
        let mut events = events.iter().peekable();
        let mut out = Vec::new();
        for &end in reports {
            while let Some((ms, (arrives, proxied))) = events.next_if(|(ms, _)| *ms <= end) {
                let now = start + Duration::from_millis(*ms);
                if *arrives { stats.request_in(now, *proxied) } else { stats.request_out(now, *proxied) }
            }
            out.push(stats.report(start + Duration::from_millis(end)));
        }
        out
    }

    fn averages(reports: &[Report]) -> Vec<(f64, u64)> {
        let round = |v: f64| (v * 1e9).round() / 1e9;
        reports.iter().map(|r| (round(r.average_concurrency), r.request_count)).collect()
    }

    /// The cases of knative/networking pkg/http/stats request_test.go.
    #[test]
    fn agrees_with_knatives_vectors() {
        assert_eq!(averages(&play(&[(0, IN), (1000, OUT)], &[1000])), [(1.0, 1)]);
        assert_eq!(averages(&play(&[(0, IN), (3000, OUT)], &[6000])), [(0.5, 1)]);
        assert_eq!(averages(&play(&[(0, IN), (1, OUT)], &[1000])), [(0.001, 1)]);
        assert_eq!(averages(&play(&[(0, IN), (100, IN), (600, OUT), (1000, OUT)], &[1000])), [(1.5, 2)]);
        assert_eq!(averages(&play(&[(0, IN), (1500, OUT)], &[1000, 2000])), [(1.0, 1), (0.5, 0)]);
        assert_eq!(
            averages(&play(&[(0, IN), (3500, OUT)], &[1000, 2000, 3000, 4000])),
            [(1.0, 1), (1.0, 0), (1.0, 0), (0.5, 0)]
        );
    }

    #[test]
    fn proxied_requests_are_counted_in_both_columns() {
        let reports = play(&[(0, PROXIED_IN), (0, IN), (500, PROXIED_OUT), (1000, OUT)], &[1000]);
        assert_eq!(averages(&reports), [(1.5, 2)]);
        assert_eq!((reports[0].average_proxied_concurrency, reports[0].proxied_request_count), (0.5, 1));
    }

    #[test]
    fn time_that_runs_backwards_adds_nothing() {
        assert_eq!(averages(&play(&[(500, IN), (499, IN), (1000, OUT), (999, OUT)], &[1000])), [(1.0, 2)]);
    }

    #[test]
    fn an_end_without_a_start_does_not_wrap_around() {
        assert_eq!(averages(&play(&[(0, OUT), (0, IN)], &[1000])), [(1.0, 1)]);
    }
}
