//! Collector: the windows of all workloads, filled by pushes and by scrapes.
//!
//! Activators' pushes come from the stat server, pods' stats from the scraper; what both record for
//! one second adds up. The multi-scaler and the metrics API read averages. A push for a workload
//! that is not in the table is dropped, because no decision would use it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::metric_name::MetricName;
use autoscaler::stats::collection::{Collection, ScrapeResult, WindowAverages, WindowSpec};
use autoscaler::stats::reporters::{MissingReports, PublishedWorkloads, Reporters};
use autoscaler::stats::{ActivatorReport, ReportStream, StatMessage, StreamState};
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::collection::load_recordings::LoadRecordings;
use crate::collection::window_clock::WindowClock;

/// The collections of all workloads.
#[derive(Debug, Default)]
pub struct Collector {
    clock: WindowClock,
    collections: RwLock<HashMap<Key, Arc<Entry>>>,
    activators: AtomicUsize,
    reporters: Mutex<Reporters>,
    recordings: LoadRecordings,
}

/// One workload's collection. The lock is held for a few additions or one decision, never across an
/// await.
#[derive(Debug)]
struct Entry {
    windows: Mutex<WindowSpec>,
    collection: Mutex<Collection>,
}

/// How a pushed message was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushOutcome {
    /// Added to the windows.
    Recorded,
    /// Dropped: the workload is not in the table.
    UnknownWorkload,
    /// Dropped: a number is negative, not finite or out of bounds.
    Implausible,
}

/// The connection of one activator, until dropped. Without all of its frames no workload is idle.
#[derive(Debug)]
pub struct ConnectedActivator {
    collector: Arc<Collector>,
    stream: ReportStream,
}

// === impl Collector ===

impl Collector {
    /// Without workloads; all windows have this clock.
    pub fn new(clock: WindowClock) -> Self {
        Self { clock, ..Self::default() }
    }

    /// The clock of all windows.
    pub fn clock(&self) -> &WindowClock {
        &self.clock
    }

    pub fn recordings(&self) -> &LoadRecordings {
        &self.recordings
    }

    /// Starts to collect a workload, or resizes its windows.
    pub fn create_or_update(&self, key: &Key, windows: WindowSpec) {
        if let Some(entry) = self.entry(key) {
            entry.resize(windows, self.clock.now());
            return;
        }
        let entry = Entry { windows: Mutex::new(windows), collection: Mutex::new(Collection::new(windows)) };
        self.collections.write().insert(key.clone(), Arc::new(entry));
    }

    /// Drops the collections of all workloads for which `keep` is false.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        let mut collections = self.collections.write();
        collections.retain(|key, _| keep(key));
    }

    /// Drops all that was recorded of a workload.
    pub fn reset(&self, key: &Key) {
        let Some(entry) = self.entry(key) else { return };
        let windows = entry.windows.lock();
        *entry.collection.lock() = Collection::new(*windows);
    }

    /// Records one workload's part of an activator's push.
    pub fn record_push(&self, message: &StatMessage) -> PushOutcome {
        if !message.stat.is_plausible() {
            return PushOutcome::Implausible;
        }
        let Some(entry) = self.entry(&message.key) else { return PushOutcome::UnknownWorkload };
        let at = self.clock.second_of(message.stat.timestamp);
        let mut collection = entry.collection.lock();
        collection.record(at, &message.stat);
        self.recordings.stat(&message.key, at, &message.stat);
        if !message.stat.is_idle() {
            collection.idleness_mut().activator(self.clock.now());
        }
        PushOutcome::Recorded
    }

    /// Records one scrape of a workload's pods, for the second `at`.
    pub fn record_scrape(&self, key: &Key, at: Duration, round: &ScrapeResult) {
        let Some(entry) = self.entry(key) else { return };
        let reported = self.all_activators_report(key);
        let mut collection = entry.collection.lock();
        collection.record_scrape(at, round, reported);
        if let ScrapeResult::Complete { total, .. } = round {
            self.recordings.stat(key, at, total);
        }
    }

    /// A workload's current averages; `None` without data.
    pub fn averages(&self, key: &Key, measure: MetricName) -> Option<WindowAverages> {
        self.with_averages(key, measure, self.clock.now(), |averages| averages)
    }

    /// Calls `act` with a workload's averages at `now`. No stat is recorded meanwhile, so that a
    /// recording has stats and decisions in the order in which they took effect.
    pub fn with_averages<T>(
        &self,
        key: &Key,
        measure: MetricName,
        now: Duration,
        act: impl FnOnce(Option<WindowAverages>) -> T,
    ) -> T {
        let Some(entry) = self.entry(key) else { return act(None) };
        let collection = entry.collection.lock();
        act(collection.averages(measure, now))
    }

    /// Since when all pods and activators report the workload as idle.
    pub fn idle_since(&self, key: &Key) -> Option<Duration> {
        let entry = self.entry(key).filter(|_| self.all_activators_report(key))?;
        let now = self.clock.now();
        entry.collection.lock().idleness().since(now)
    }

    /// Counts one more connected activator, until the returned value is dropped.
    pub fn activator_connected(self: &Arc<Self>) -> ConnectedActivator {
        self.activators.fetch_add(1, Ordering::Relaxed);
        ConnectedActivator { collector: self.clone(), stream: ReportStream::default() }
    }

    /// Takes the names of all activators in the slices, and whether each is ready.
    pub fn list_activators(&self, listed: impl IntoIterator<Item = (String, bool)>) {
        self.reporters.lock().list(listed, Instant::now().into_std());
    }

    /// Takes what activators that cannot report published.
    pub fn publish_carried(&self, published: PublishedWorkloads) {
        self.reporters.lock().publish(published, Instant::now().into_std());
    }

    /// Whether every activator that may carry requests of this workload reported the last second.
    pub fn all_activators_report(&self, key: &Key) -> bool {
        self.reporters.lock().are_complete_for(key, Instant::now().into_std())
    }

    /// Whether an activator that may carry requests of this workload did not report the last
    /// second.
    pub fn is_any_activator_silent(&self, key: &Key) -> bool {
        self.reporters.lock().is_any_silent_for(key, Instant::now().into_std())
    }

    /// The activators whose reports are missing.
    pub fn missing_reports(&self) -> MissingReports {
        self.reporters.lock().missing(Instant::now().into_std())
    }

    /// Number of connected activators.
    pub fn connected_activators(&self) -> usize {
        self.activators.load(Ordering::Relaxed)
    }

    fn entry(&self, key: &Key) -> Option<Arc<Entry>> {
        self.collections.read().get(key).cloned()
    }

    /// Ends the idleness of all workloads, because the activator may hold requests of any.
    fn activator_lost(&self, name: Option<&str>) {
        name.into_iter().for_each(|name| self.reporters.lock().interrupted(name));
        let now = self.clock.now();
        let entries: Vec<_> = self.collections.read().values().cloned().collect();
        for entry in entries {
            entry.collection.lock().idleness_mut().activator(now);
        }
    }
}

#[cfg(test)]
impl Collector {
    /// The connection of the only activator, which reported just now.
    pub(crate) fn reporting_activator(self: &Arc<Self>) -> ConnectedActivator {
        self.list_activators([("a".to_owned(), true)]);
        self.publish_carried(PublishedWorkloads::new());
        let mut activator = self.activator_connected();
        activator.frame(&tests::beat("a", 1), true);
        activator
    }
}

// === impl Entry ===

impl Entry {
    fn resize(&self, windows: WindowSpec, now: Duration) {
        let mut current = self.windows.lock();
        if *current == windows {
            return;
        }
        let mut collection = self.collection.lock();
        if current.aggregation == windows.aggregation {
            collection.resize(windows, now);
        } else {
            // Linear and exponential buckets cannot be converted into each other.
            *collection = Collection::new(windows);
        }
        *current = windows;
    }
}

// === impl ConnectedActivator ===

impl ConnectedActivator {
    /// Its next frame, after the messages were recorded; `is_whole` if all of them were plausible.
    pub fn frame(&mut self, report: &ActivatorReport, is_whole: bool) {
        match self.stream.frame(report, is_whole) {
            StreamState::Open => {}
            StreamState::SecondReported(carried) => {
                let now = Instant::now().into_std();
                self.collector.reporters.lock().reported(&report.activator, carried, now);
            }
            StreamState::Damaged => self.collector.activator_lost(Some(&report.activator)),
        }
    }

    /// A frame that could not be decoded.
    pub fn malformed(&mut self) {
        self.stream.malformed();
        self.collector.activator_lost(self.stream.activator());
    }
}

impl Drop for ConnectedActivator {
    fn drop(&mut self) {
        self.collector.activators.fetch_sub(1, Ordering::Relaxed);
        self.collector.activator_lost(self.stream.activator());
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::settings::Aggregation;
    use autoscaler::stats::{CarriedWorkloads, Stat};

    use super::*;

    fn windows() -> WindowSpec {
        WindowSpec {
            stable: Duration::from_secs(60),
            panic: Duration::from_secs(6),
            aggregation: Aggregation::Linear,
        }
    }

    fn stat(concurrency: f64, proxied: f64, timestamp: i64) -> Stat {
        Stat {
            average_concurrent_requests: concurrency,
            average_proxied_concurrent_requests: proxied,
            timestamp,
            ..Stat::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn adds_push_and_scrape_of_one_second_without_the_proxied_part() {
        let collector = Collector::default();
        let key = Key::new("shop", "web");
        collector.create_or_update(&key, windows());
        let second = i64::try_from(collector.clock().now().as_secs()).unwrap();
        let message = StatMessage { key: key.clone(), stat: stat(7.0, 0.0, second) };
        assert_eq!(collector.record_push(&message), PushOutcome::Recorded);
        let at = Duration::from_secs(second.unsigned_abs());
        collector.record_scrape(&key, at, &ScrapeResult::Complete { total: stat(10.0, 6.0, 0), idle: false });
        assert_eq!(collector.averages(&key, MetricName::Concurrency).unwrap().stable, 11.0);
        assert_eq!(collector.idle_since(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn drops_implausible_stats_and_unknown_workloads() {
        let collector = Collector::default();
        let key = Key::new("shop", "web");
        let message = StatMessage { key: key.clone(), stat: stat(1.0, 0.0, 0) };
        assert_eq!(collector.record_push(&message), PushOutcome::UnknownWorkload);
        assert_eq!(collector.averages(&key, MetricName::Concurrency), None); // C7 of Knative's collector_test.go
        collector.create_or_update(&key, windows());
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let message = StatMessage { key: key.clone(), stat: stat(bad, 0.0, 0) };
            assert_eq!(collector.record_push(&message), PushOutcome::Implausible);
        }
        assert_eq!(collector.averages(&key, MetricName::Concurrency), None);
    }

    /// A beat of an activator.
    pub(super) fn beat(name: &str, sequence: u64) -> ActivatorReport {
        ActivatorReport { activator: name.to_owned(), sequence, is_beat: true, ..ActivatorReport::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn workload_without_pods_is_idle_only_if_all_ready_activators_report() {
        let collector = Arc::new(Collector::default());
        let key = Key::new("shop", "web");
        collector.create_or_update(&key, windows());
        collector.list_activators([("a".to_owned(), true), ("b".to_owned(), true)]);
        collector.publish_carried(PublishedWorkloads::new());
        let round = || collector.record_scrape(&key, collector.clock().now(), &ScrapeResult::NoPods);
        let [mut a, mut b] = [0; 2].map(|_| collector.activator_connected());
        a.frame(&beat("a", 1), true);
        round();
        assert_eq!(collector.idle_since(&key), None, "b is connected and has not reported");
        b.frame(&beat("b", 1), true);
        round();
        assert!(collector.idle_since(&key).is_some());
        b.frame(&beat("b", 3), true);
        assert_eq!(collector.idle_since(&key), None, "a frame is missing");
        tokio::time::advance(Duration::from_secs(3)).await;
        a.frame(&beat("a", 2), true);
        b.frame(&beat("b", 4), true);
        round();
        assert!(collector.idle_since(&key).is_some());
        drop(b);
        assert_eq!(collector.idle_since(&key), None, "it disconnected");
        assert_eq!(collector.missing_reports().silent, ["b"]);
    }

    #[tokio::test(start_paused = true)]
    async fn workload_that_activator_carries_and_cannot_report_is_not_idle() {
        let collector = Arc::new(Collector::default());
        let keys = ["web", "api"].map(|name| Key::new("shop", name));
        keys.iter().for_each(|key| collector.create_or_update(key, windows()));
        let _activator = collector.reporting_activator();
        let idle = || {
            keys.each_ref().map(|key| {
                collector.record_scrape(key, collector.clock().now(), &ScrapeResult::NoPods);
                let is_idle = collector.idle_since(key).is_some();
                assert_eq!(is_idle, !collector.is_any_activator_silent(key));
                is_idle
            })
        };
        assert_eq!(idle(), [true, true]);
        let carried = CarriedWorkloads::new([keys[0].clone()]);
        collector.publish_carried([("b".to_owned(), carried)].into());
        assert_eq!(idle(), [false, true]);
        collector.publish_carried(PublishedWorkloads::new());
        assert_eq!(idle(), [true, true]);
    }
}
