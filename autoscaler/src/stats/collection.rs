//! Collection: what is known of one workload's requests, second by second.
//!
//! ```text
//!  activators ── push ──┐                 ┌─ concurrency: stable, panic
//!                       ├─► Stat ─► sum ──┤                              ─► averages ─► Decider, metrics API
//!  queue-proxies scraped┘   per second    └─ requests:    stable, panic
//!                       └─► Idleness                                     ─► idle_since ─► zero-scaler
//! ```
//!
//! A request that an activator forwards is seen twice, there and in the pod; the pod's report says which part of its load
//! that is, and only the rest counts. That subtraction is the one rule against counting twice. What surprises: an empty
//! window is [`None`], not zero. Zero is only what somebody reported.

mod idleness;

use std::time::Duration;

pub use idleness::Idleness;

use crate::contract::metric_name::MetricName;
use crate::settings::{Aggregation, Settings};
use crate::stats::Stat;
use crate::stats::window::Window;

/// Lengths and kind of a collection's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// The window for steady load.
    pub stable: Duration,
    /// The window for bursts.
    pub panic: Duration,
    /// How seconds weigh. Only its value at the collection's creation counts.
    pub aggregation: Aggregation,
}

/// One metric over the two windows, as the workload's total.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WindowAverages {
    /// Over the stable window.
    pub stable: f64,
    /// Over the panic window.
    pub panic: f64,
}

/// The windows of one workload.
#[derive(Clone, Debug)]
pub struct Collection {
    concurrency: Pair,
    requests: Pair,
    idleness: Idleness,
}

/// The two windows of one metric. Each has a ring of its own, though the newest seconds of both are the same: a running total,
/// what is too late, and what a resize keeps go by each one's own length, and sharing would save some fifty numbers.
#[derive(Clone, Debug)]
struct Pair {
    stable: Window,
    panic: Window,
}

// === impl WindowSpec ===

impl From<&Settings> for WindowSpec {
    fn from(settings: &Settings) -> Self {
        Self {
            stable: settings.stable_window,
            panic: settings.panic_window(),
            aggregation: settings.aggregation,
        }
    }
}

/// What a second of scraping gave.
#[derive(Clone, Debug, PartialEq)]
pub enum ScrapeResult {
    /// Enough pods answered.
    Complete {
        /// The sum over all pods.
        total: Stat,
        /// Whether none of those asked had a request, proxied ones included.
        idle: bool,
    },
    /// There are no ready pods.
    NoPods,
    /// Too few answered.
    Incomplete,
}

// === impl Collection ===

impl Collection {
    /// A collection without data.
    pub fn new(windows: WindowSpec) -> Self {
        Self { concurrency: Pair::new(windows), requests: Pair::new(windows), idleness: Idleness::default() }
    }

    /// Changes the windows' lengths and keeps the data that still fit.
    pub fn resize(&mut self, windows: WindowSpec, now: Duration) {
        self.concurrency.resize(windows, now);
        self.requests.resize(windows, now);
    }

    /// Adds a report of the second `at`; reports of one second add up. What is not a number of a sane size is dropped: whoever
    /// lets reports in should have refused it, and told ([`Stat::is_plausible`]).
    pub fn record(&mut self, at: Duration, stat: &Stat) {
        self.concurrency
            .record(at, stat.average_concurrent_requests - stat.average_proxied_concurrent_requests);
        self.requests.record(at, stat.request_count - stat.proxied_request_count);
    }

    /// Takes in the round of a second. `activators`: whether one is connected.
    pub fn record_scrape(&mut self, at: Duration, scrape: &ScrapeResult, activators: bool) {
        match scrape {
            ScrapeResult::Complete { total, idle } => {
                self.record(at, total);
                self.idleness_mut().complete_scrape(at, *idle);
            }
            // Without pods the activators are the only ones to hear.
            ScrapeResult::NoPods if activators => self.idleness_mut().complete_scrape(at, true),
            ScrapeResult::NoPods | ScrapeResult::Incomplete => self.idleness_mut().incomplete_scrape(),
        }
    }

    /// The averages at `now`; `None` if nothing was reported for longer than the stable window.
    pub fn averages(&self, metric: MetricName, now: Duration) -> Option<WindowAverages> {
        let pair = match metric {
            MetricName::Concurrency => &self.concurrency,
            MetricName::RequestsPerSecond => &self.requests,
        };
        pair.averages(now)
    }

    /// Since when nobody had a request.
    pub fn idleness(&self) -> &Idleness {
        &self.idleness
    }

    /// Who had requests; the caller says what it heard, and from whom.
    pub fn idleness_mut(&mut self) -> &mut Idleness {
        &mut self.idleness
    }
}

// === impl Pair ===

impl Pair {
    fn new(windows: WindowSpec) -> Self {
        Self {
            stable: Window::new(windows.aggregation, windows.stable),
            panic: Window::new(windows.aggregation, windows.panic),
        }
    }

    fn resize(&mut self, windows: WindowSpec, now: Duration) {
        self.stable.resize(windows.stable, now);
        self.panic.resize(windows.panic, now);
    }

    fn record(&mut self, at: Duration, value: f64) {
        self.stable.record(at, value);
        self.panic.record(at, value);
    }

    fn averages(&self, now: Duration) -> Option<WindowAverages> {
        (!self.stable.is_empty(now))
            .then(|| WindowAverages { stable: self.stable.average(now), panic: self.panic.average(now) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: Duration = Duration::from_secs(1_600_000_000);

    fn at(seconds: u64) -> Duration {
        T0 + Duration::from_secs(seconds)
    }

    fn windows(stable: u64, panic: u64) -> WindowSpec {
        WindowSpec {
            stable: Duration::from_secs(stable),
            panic: Duration::from_secs(panic),
            aggregation: Aggregation::Linear,
        }
    }

    fn stat(concurrency: f64, proxied: f64, count: f64, proxied_count: f64) -> Stat {
        Stat {
            average_concurrent_requests: concurrency,
            average_proxied_concurrent_requests: proxied,
            request_count: count,
            proxied_request_count: proxied_count,
            ..Stat::default()
        }
    }

    /// Knative collector_test.go.
    #[test]
    fn reports_of_a_second_add_up_and_proxied_requests_are_taken_off() {
        let mut collection = Collection::new(windows(60, 6));
        for _ in 0..3 {
            collection.record(T0, &stat(10.0, 0.0, 0.0, 0.0));
        }
        assert_eq!(
            collection.averages(MetricName::Concurrency, T0),
            Some(WindowAverages { stable: 30.0, panic: 30.0 }),
            "C1"
        );
        let mut collection = Collection::new(windows(60, 6));
        collection.record(T0, &stat(20.0, 10.0, 30.0, 20.0));
        for metric in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
            assert_eq!(collection.averages(metric, T0), Some(WindowAverages { stable: 10.0, panic: 10.0 })); // C2
        }
    }

    /// Knative collector_test.go.
    #[test]
    fn both_windows_end_at_the_same_second() {
        let mut collection = Collection::new(windows(6, 2));
        for second in 0..10u32 {
            collection.record(at(second.into()), &stat(f64::from(5 + second), 0.0, 0.0, 0.0));
        }
        assert_eq!(
            collection.averages(MetricName::Concurrency, at(9)),
            Some(WindowAverages { stable: 11.5, panic: 13.5 }),
            "C3"
        );
    }

    /// Knative collector_test.go; no data is an error there. That silence is zero for a workload whose activators see every request
    /// (C5) is decided by the decider; a workload that nobody collects (C7) has no collection to ask.
    #[test]
    fn missing_data_is_not_zero() {
        let mut collection = Collection::new(windows(60, 6));
        assert_eq!(collection.averages(MetricName::Concurrency, T0), None); // C6
        collection.record(at(100), &stat(0.0, 0.0, 0.0, 0.0));
        collection.record(at(30), &stat(10.0, 0.0, 10.0, 0.0));
        let zero = Some(WindowAverages { stable: 0.0, panic: 0.0 });
        assert_eq!(collection.averages(MetricName::Concurrency, at(100)), zero, "70 s too late"); // C4
        assert_eq!(collection.averages(MetricName::Concurrency, at(160)), zero, "exactly the window ago");
        assert_eq!(collection.averages(MetricName::Concurrency, at(161)), None); // C6
    }

    #[test]
    fn nonsense_is_no_report() {
        let mut collection = Collection::new(windows(60, 6));
        for odd in [f64::NAN, f64::INFINITY, -f64::INFINITY, f64::MAX] {
            collection.record(T0, &stat(odd, 0.0, 0.0, odd));
            collection.record(T0, &stat(0.0, odd, odd, 0.0));
            collection.record(T0, &stat(odd, odd, odd, odd));
        }
        collection.record(T0, &stat(3.0, 1.0, 3.0, 1.0));
        for metric in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
            assert_eq!(collection.averages(metric, T0), Some(WindowAverages { stable: 2.0, panic: 2.0 }));
        }
    }
}
