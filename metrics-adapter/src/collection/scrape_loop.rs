//! Scrape loop: one task that scrapes the pods of every workload each second.
//!
//! One task serves all workloads: a pending scrape is an entry in a `FuturesUnordered`, not a task
//! with a timer of its own. It runs on the thread that receives the pods' responses, so that a
//! response never wakes another thread; on two threads, ten thousand workloads took half as much
//! CPU time again.

use autoscaler::Key;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::collection::scrape_schedule::ScrapeSchedule;
use crate::collection::stats_scraper::StatsScraper;
use crate::watches::workloads::WorkloadTable;

/// Scrapes all workloads of the table until the table's sender is dropped. Calls `on_scrape` after
/// each scrape of a workload.
pub async fn run(scraper: StatsScraper, on_scrape: impl Fn(&Key)) {
    let clock = *scraper.collector.clock();
    let mut workloads = scraper.workloads.clone();
    let mut schedule = ScrapeSchedule::default();
    let mut rounds = FuturesUnordered::new();
    // The first table counts as a change.
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
                rounds.extend(schedule.begin(clock.now()).into_iter().map(|round| scraper.run_round(round)));
            }
            Some((key, result)) = rounds.next() => {
                schedule.end(&key, result);
                on_scrape(&key);
            }
        }
    }
}

fn update(scraper: &StatsScraper, table: &WorkloadTable, schedule: &mut ScrapeSchedule) {
    scraper.metrics.workloads.set(i64::try_from(table.len()).unwrap_or(i64::MAX));
    scraper.collector.retain(|key| table.get(key).is_some());
    let learns = |key: &Key| table.get(key).is_some_and(|workload| workload.learning.is_some());
    scraper.observations.retain(learns);
    scraper.pod_reports.retain(learns);
    for workload in table.iter() {
        scraper.collector.create_or_update(&workload.key, workload.windows);
    }
    schedule.update(table, scraper.collector.clock().now());
}
