//! TickSchedule: at which tick of each two seconds a workload is decided on.
//!
//! Workloads are spread over the ticks, so that a decision never waits until all others are made.
//! Many workloads get many short ticks; few get few, so that an idle process wakes seldom. Missed
//! ticks are made up for, unless more than one whole period is missed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::watches::workloads::{Workload, WorkloadTable};

/// Time between two decisions on one workload.
const PERIOD: Duration = Duration::from_secs(2);
/// Most workloads for which few ticks suffice.
const FEW: usize = 100;

/// The ticks of one period and the workloads of each.
#[derive(Debug)]
pub(crate) struct TickSchedule {
    ticks: Vec<Vec<Arc<Workload>>>,
    next: usize,
    interval: Interval,
}

// === impl TickSchedule ===

impl TickSchedule {
    /// A schedule for a table; its first tick is due at once.
    pub(crate) fn new(table: &WorkloadTable) -> Self {
        let count = count(table);
        let mut interval = tokio::time::interval(PERIOD / count);
        interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self { ticks: assign(table, count), next: 0, interval }
    }

    /// Replaces the table. Workloads keep their ticks, unless the number of ticks changes.
    pub(crate) fn update(&mut self, table: &WorkloadTable) {
        let count = count(table);
        if self.interval.period() == PERIOD / count {
            self.ticks = assign(table, count);
        } else {
            *self = Self::new(table);
        }
    }

    /// Waits for the next tick and returns its workloads. Cancel-safe.
    pub(crate) async fn next(&mut self) -> &[Arc<Workload>] {
        let due = self.interval.tick().await;
        if due.elapsed() > PERIOD {
            self.interval.reset_at(Instant::now() + self.interval.period());
        }
        let tick = self.next;
        self.next = (tick + 1) % self.ticks.len().max(1);
        self.ticks.get(tick).map_or(&[], Vec::as_slice)
    }
}

fn count(table: &WorkloadTable) -> u32 {
    if table.len() <= FEW { 8 } else { 40 }
}

fn assign(table: &WorkloadTable, count: u32) -> Vec<Vec<Arc<Workload>>> {
    let mut ticks: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for workload in table.iter() {
        let mut hasher = DefaultHasher::new();
        workload.key.hash(&mut hasher);
        let tick = usize::try_from(hasher.finish() % u64::from(count)).unwrap_or_default();
        if let Some(tick) = ticks.get_mut(tick) {
            tick.push(workload.clone());
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(workloads: usize) -> WorkloadTable {
        (0..workloads).map(|i| Workload::sample(&i.to_string())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_workload_has_one_tick_a_period_when_ticks_are_late() {
        for workloads in [1, FEW, FEW + 1] {
            let table = table(workloads);
            let mut had: std::collections::BTreeMap<_, i32> =
                table.iter().map(|workload| (workload.key.clone(), 0)).collect();
            let (start, mut schedule) = (Instant::now(), TickSchedule::new(&table));
            while start.elapsed() < 10 * PERIOD - PERIOD / 80 {
                for workload in schedule.next().await {
                    *had.get_mut(&workload.key).unwrap() += 1;
                }
                if schedule.next == 3 {
                    tokio::time::advance(PERIOD / 10).await;
                    schedule.update(&table);
                }
            }
            assert!(had.values().all(|had| (9..=11).contains(had)), "{workloads}: {had:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn skips_ticks_after_a_long_pause() {
        let mut schedule = TickSchedule::new(&table(1));
        schedule.next().await;
        tokio::time::advance(100 * PERIOD).await;
        schedule.next().await;
        let start = Instant::now();
        schedule.next().await;
        assert!(start.elapsed() >= PERIOD / 8);
    }

    #[tokio::test(start_paused = true)]
    async fn follows_added_and_removed_workloads() {
        let mut schedule = TickSchedule::new(&table(1));
        schedule.update(&table(FEW + 1));
        let mut seen = 0;
        for _ in 0..40 {
            seen += schedule.next().await.len();
        }
        assert_eq!(seen, FEW + 1);
        schedule.update(&table(0));
        assert!(schedule.next().await.is_empty());
    }
}
