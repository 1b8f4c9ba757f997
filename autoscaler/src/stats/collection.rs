//! The collection of one workload's stats, second by second.
//!
//! ```text
//!  activators ── push ──┐                 ┌─ concurrency: stable, panic ─┐
//!                       ├─► Stat ─► sum ──┤                              ├─► averages ─► Decider
//!  queue-proxies scraped┘   per second    └─ requests:    stable, panic ─┘
//!                       └─► Idleness ─► idle_since ─► zero-scaler
//! ```
//!
//! A request that an activator forwards is counted twice, by the activator and by the pod. The
//! pod's stat has the forwarded part of its load, which is subtracted. This is the only rule
//! against counting twice.
//!
//! What surprises: the average of an empty window is [`None`], not zero. Zero has to be reported.

mod idleness;

use std::time::Duration;

pub use idleness::Idleness;

use crate::contract::metric_name::MetricName;
use crate::settings::{Aggregation, Settings};
use crate::stats::Stat;
use crate::stats::window::Window;

/// Lengths and aggregation of a collection's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowSpec {
    /// The window for steady load.
    pub stable: Duration,
    /// The window for bursts.
    pub panic: Duration,
    /// Weight of each second. Only the value at the collection's creation counts.
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

/// The two windows of one metric. Each has its own ring although their newest seconds are the same:
/// the running total, the limit for late data and the data kept by a resize depend on the length.
/// Sharing would save some fifty numbers.
#[derive(Clone, Debug)]
struct Pair {
    stable: Window,
    panic: Window,
}

// === impl WindowSpec ===

impl From<&Settings> for WindowSpec {
    fn from(settings: &Settings) -> Self {
        Self {
            stable: settings.window.stable,
            panic: settings.window.panic(),
            aggregation: settings.window.aggregation,
        }
    }
}

/// The result of one scrape of a workload's pods.
#[derive(Clone, Debug, PartialEq)]
pub enum ScrapeResult {
    /// Enough pods responded.
    Complete {
        /// The sum over all pods.
        total: Stat,
        /// Whether none of the scraped pods had a request, proxied ones included.
        idle: bool,
    },
    /// There are no ready pods.
    NoPods,
    /// Too few pods responded.
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

    /// Adds a stat of the second `at`; stats of one second add up. A value that is not finite, or
    /// too large for a window, is dropped. Callers reject and log such stats before
    /// ([`Stat::is_plausible`]).
    pub fn record(&mut self, at: Duration, stat: &Stat) {
        self.concurrency
            .record(at, stat.average_concurrent_requests - stat.average_proxied_concurrent_requests);
        self.requests.record(at, stat.request_count - stat.proxied_request_count);
    }

    /// Adds the scrape of a second. `reported`: whether every activator that is due has reported.
    pub fn record_scrape(&mut self, at: Duration, scrape: &ScrapeResult, reported: bool) {
        if let ScrapeResult::Complete { total, .. } = scrape {
            self.record(at, total);
        }
        match scrape {
            ScrapeResult::Complete { idle, .. } if reported => {
                self.idleness_mut().complete_scrape(at, *idle);
            }
            // Without pods the activators are the only source.
            ScrapeResult::NoPods if reported => self.idleness_mut().complete_scrape(at, true),
            _ => self.idleness_mut().incomplete_scrape(),
        }
    }

    /// The averages at `now`; `None` if the last stat is older than the stable window.
    pub fn averages(&self, metric: MetricName, now: Duration) -> Option<WindowAverages> {
        let pair = match metric {
            MetricName::Concurrency => &self.concurrency,
            MetricName::RequestsPerSecond => &self.requests,
        };
        pair.averages(now)
    }

    /// Since when there is no request.
    pub fn idleness(&self) -> &Idleness {
        &self.idleness
    }

    /// For reports of the activators, which the caller receives.
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
    fn stats_of_a_second_add_up_without_proxied_requests() {
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

    /// Knative collector_test.go; no data is an error there. The decider counts no data as zero if
    /// the activators get every request (C5). A workload without collection (C7) has no counterpart
    /// here.
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
    fn drops_values_that_are_not_finite_or_too_large() {
        let mut collection = Collection::new(windows(60, 6));
        for invalid in [f64::NAN, f64::INFINITY, -f64::INFINITY, f64::MAX] {
            collection.record(T0, &stat(invalid, 0.0, 0.0, invalid));
            collection.record(T0, &stat(0.0, invalid, invalid, 0.0));
            collection.record(T0, &stat(invalid, invalid, invalid, invalid));
        }
        collection.record(T0, &stat(3.0, 1.0, 3.0, 1.0));
        for metric in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
            assert_eq!(collection.averages(metric, T0), Some(WindowAverages { stable: 2.0, panic: 2.0 }));
        }
    }
}
