//! Collector: the collections of all workloads, and the task that fills them from the pods.
//!
//! Fed by the stat server (pushes) and the scraper (rounds); what both record of one second adds up. Read by the
//! multi-scaler and the API. A push for a workload that nobody decides on is dropped: there is nothing to decide.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoscaler::Key;
use autoscaler::collection::{Averages, Collection, Measure, Round, Windows};
use autoscaler::stats::StatMessage;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use crate::clock::Clock;
use crate::pokes::Pokes;
use crate::scrape_schedule::ScrapeSchedule;
use crate::stats_scraper::StatsScraper;
use crate::workloads::Workloads;

/// All collections.
#[derive(Debug, Default)]
pub struct Collector {
    clock: Clock,
    collections: RwLock<HashMap<Key, Arc<Entry>>>,
    activators: AtomicUsize,
}

/// One workload's collection. The lock is held for a few additions, never across an await.
#[derive(Debug)]
struct Entry {
    windows: Mutex<Windows>,
    collection: Mutex<Collection>,
}

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// It is in the windows.
    Taken,
    /// Nobody decides on that workload.
    UnknownWorkload,
    /// Its numbers cannot be.
    Implausible,
}

/// Counts an activator as connected until dropped.
#[derive(Debug)]
pub struct ConnectedActivator(Arc<Collector>);

// === impl Collector ===

impl Collector {
    /// The time of all windows.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Starts to collect a workload, or changes its windows.
    pub fn create_or_update(&self, key: &Key, windows: Windows) {
        if let Some(entry) = self.entry(key) {
            entry.resize(windows, self.clock.now());
            return;
        }
        let entry = Entry { windows: Mutex::new(windows), collection: Mutex::new(Collection::new(windows)) };
        self.collections.write().insert(key.clone(), Arc::new(entry));
    }

    /// Forgets the workloads that are not to be kept.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        let mut collections = self.collections.write();
        collections.retain(|key, _| keep(key));
    }

    /// Takes in what an activator says of one workload.
    pub fn record_push(&self, message: &StatMessage) -> Recorded {
        if !message.stat.is_plausible() {
            return Recorded::Implausible;
        }
        let Some(entry) = self.entry(&message.key) else { return Recorded::UnknownWorkload };
        let mut collection = entry.collection.lock();
        collection.record(self.clock.second_of(message.stat.timestamp), &message.stat);
        if !message.stat.is_idle() {
            collection.idleness_mut().activator(self.clock.now());
        }
        Recorded::Taken
    }

    /// Takes in a second of scraping.
    pub fn record_round(&self, key: &Key, at: Duration, round: &Round) {
        let Some(entry) = self.entry(key) else { return };
        let activators = self.connected_activators() > 0;
        entry.collection.lock().record_round(at, round, activators);
    }

    /// A workload's averages now; `None` without data.
    pub fn averages(&self, key: &Key, measure: Measure) -> Option<Averages> {
        let entry = self.entry(key)?;
        let now = self.clock.now();
        entry.collection.lock().averages(measure, now)
    }

    /// Since when a workload is idle, by everybody's word.
    pub fn idle_since(&self, key: &Key) -> Option<Duration> {
        let entry = self.entry(key)?;
        let now = self.clock.now();
        entry.collection.lock().idleness().since(now)
    }

    /// Counts an activator's connection.
    pub fn activator_connected(self: &Arc<Self>) -> ConnectedActivator {
        self.activators.fetch_add(1, Ordering::Relaxed);
        ConnectedActivator(self.clone())
    }

    /// Activators connected now.
    pub fn connected_activators(&self) -> usize {
        self.activators.load(Ordering::Relaxed)
    }

    fn entry(&self, key: &Key) -> Option<Arc<Entry>> {
        self.collections.read().get(key).cloned()
    }

    /// What an activator carried when it went silent is not known: nobody is idle by its word.
    fn activator_lost(&self) {
        let now = self.clock.now();
        let entries: Vec<_> = self.collections.read().values().cloned().collect();
        for entry in entries {
            entry.collection.lock().idleness_mut().activator(now);
        }
    }
}

// === impl Entry ===

impl Entry {
    fn resize(&self, windows: Windows, now: Duration) {
        let mut current = self.windows.lock();
        if *current == windows {
            return;
        }
        let mut collection = self.collection.lock();
        if current.aggregation == windows.aggregation {
            collection.resize(windows, now);
        } else {
            // The two kinds do not translate into each other.
            *collection = Collection::new(windows);
        }
        *current = windows;
    }
}

// === impl ConnectedActivator ===

impl Drop for ConnectedActivator {
    fn drop(&mut self) {
        self.0.activators.fetch_sub(1, Ordering::Relaxed);
        self.0.activator_lost();
    }
}

/// Keeps a collection of each workload in the table, and reads the pods of all of them each second.
///
/// One task for all: what is waited for is a place among many, not a task with a timer of its own. It runs on the thread that takes
/// in the answers, so that no answer wakes another thread; with two, ten thousand workloads took half as much time again.
pub async fn follow(scraper: StatsScraper, pokes: Pokes) {
    let clock = *scraper.collector.clock();
    let mut workloads = scraper.workloads.clone();
    let mut schedule = ScrapeSchedule::default();
    let mut rounds = FuturesUnordered::new();
    // What is in the table now is news, too.
    workloads.mark_changed();
    loop {
        let next = schedule.next_due().map(|due| clock.instant(due));
        tokio::select! {
            changed = workloads.changed() => {
                if changed.is_err() {
                    return;
                }
                update(&scraper, &workloads.borrow_and_update(), &mut schedule);
            }
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {
                rounds.extend(schedule.begin(clock.now()).into_iter().map(|round| scraper.round(round)));
            }
            Some((key, outcome)) = rounds.next() => {
                schedule.ended(&key, outcome);
                pokes.read(&key);
            }
        }
    }
}

fn update(scraper: &StatsScraper, table: &Workloads, schedule: &mut ScrapeSchedule) {
    scraper.metrics.workloads.set(i64::try_from(table.len()).unwrap_or(i64::MAX));
    scraper.collector.retain(|key| table.get(key).is_some());
    for workload in table.iter() {
        scraper.collector.create_or_update(&workload.key, workload.windows);
    }
    schedule.update(table, scraper.collector.clock().now());
}

#[cfg(test)]
mod tests {
    use autoscaler::settings::Aggregation;
    use autoscaler::stats::Stat;

    use super::*;

    fn windows() -> Windows {
        Windows {
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
    async fn push_and_scrape_of_one_second_add_up_without_the_proxied_part() {
        let collector = Collector::default();
        let key = Key::new("shop", "web");
        collector.create_or_update(&key, windows());
        let second = i64::try_from(collector.clock().now().as_secs()).unwrap();
        let message = StatMessage { key: key.clone(), stat: stat(7.0, 0.0, second) };
        assert_eq!(collector.record_push(&message), Recorded::Taken);
        let at = Duration::from_secs(second.unsigned_abs());
        collector.record_round(&key, at, &Round::Heard { total: stat(10.0, 6.0, 0), idle: false });
        assert_eq!(collector.averages(&key, Measure::Concurrency).unwrap().stable, 11.0);
        assert_eq!(collector.idle_since(&key), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_cannot_be_is_dropped() {
        let collector = Collector::default();
        let key = Key::new("shop", "web");
        let message = StatMessage { key: key.clone(), stat: stat(1.0, 0.0, 0) };
        assert_eq!(collector.record_push(&message), Recorded::UnknownWorkload);
        assert_eq!(collector.averages(&key, Measure::Concurrency), None); // C7 of Knative's collector_test.go
        collector.create_or_update(&key, windows());
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            let message = StatMessage { key: key.clone(), stat: stat(bad, 0.0, 0) };
            assert_eq!(collector.record_push(&message), Recorded::Implausible);
        }
        assert_eq!(collector.averages(&key, Measure::Concurrency), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_workload_is_idle_only_by_the_word_of_a_connected_activator() {
        let collector = Arc::new(Collector::default());
        let key = Key::new("shop", "web");
        collector.create_or_update(&key, windows());
        let round = || collector.record_round(&key, collector.clock().now(), &Round::NoPods);
        round();
        assert_eq!(collector.idle_since(&key), None, "nobody is there to say so");
        let activator = collector.activator_connected();
        round();
        assert!(collector.idle_since(&key).is_some());
        drop(activator);
        assert_eq!(collector.idle_since(&key), None, "the one who said so is gone");
    }
}
