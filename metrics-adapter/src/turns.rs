//! Turns: when in each two seconds which workloads are decided on.
//!
//! Each workload has a turn of its own, so that nothing has to wait until all are decided on. Many workloads have many short turns;
//! few have few, so that a process with nothing to do is woken seldom. Turns that were late are made up for, unless a whole round
//! of them is missing.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::workloads::{Workload, Workloads};

/// Time between two decisions on one workload.
const TICK: Duration = Duration::from_secs(2);
/// Up to so many workloads are few.
const FEW: usize = 100;

/// Whose turn it is.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The workloads of each turn.
    turns: Vec<Vec<Arc<Workload>>>,
    next: usize,
    interval: Interval,
}

// === impl Turns ===

impl Turns {
    /// Those of a table; the first is now.
    pub(crate) fn of(table: &Workloads) -> Self {
        let count = count(table);
        let mut interval = tokio::time::interval(TICK / count);
        interval.set_missed_tick_behavior(MissedTickBehavior::Burst);
        Self { turns: assign(table, count), next: 0, interval }
    }

    /// Takes in a table. Who was in the last one keeps its turn, unless their number changes.
    pub(crate) fn update(&mut self, table: &Workloads) {
        let count = count(table);
        if self.interval.period() == TICK / count {
            self.turns = assign(table, count);
        } else {
            *self = Self::of(table);
        }
    }

    /// Waits for the next one. Nothing is lost if the wait is given up.
    pub(crate) async fn next(&mut self) -> &[Arc<Workload>] {
        let due = self.interval.tick().await;
        if due.elapsed() > TICK {
            self.interval.reset_at(Instant::now() + self.interval.period());
        }
        let turn = self.next;
        self.next = (turn + 1) % self.turns.len().max(1);
        self.turns.get(turn).map_or(&[], Vec::as_slice)
    }
}

fn count(table: &Workloads) -> u32 {
    if table.len() <= FEW { 8 } else { 40 }
}

fn assign(table: &Workloads, count: u32) -> Vec<Vec<Arc<Workload>>> {
    let mut turns: Vec<Vec<_>> = (0..count).map(|_| Vec::new()).collect();
    for workload in table.iter() {
        let mut hasher = DefaultHasher::new();
        workload.key.hash(&mut hasher);
        let turn = usize::try_from(hasher.finish() % u64::from(count)).unwrap_or_default();
        if let Some(turn) = turns.get_mut(turn) {
            turn.push(workload.clone());
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(workloads: usize) -> Workloads {
        (0..workloads).map(|i| Workload::sample(&i.to_string())).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn each_workload_has_one_turn_in_two_seconds_however_late_they_come() {
        for workloads in [1, FEW, FEW + 1] {
            let table = table(workloads);
            let mut had: std::collections::BTreeMap<_, i32> =
                table.iter().map(|workload| (workload.key.clone(), 0)).collect();
            let (start, mut turns) = (Instant::now(), Turns::of(&table));
            while start.elapsed() < 10 * TICK - TICK / 80 {
                for workload in turns.next().await {
                    *had.get_mut(&workload.key).unwrap() += 1;
                }
                if turns.next == 3 {
                    tokio::time::advance(TICK / 10).await;
                    turns.update(&table);
                }
            }
            assert!(had.values().all(|had| (9..=11).contains(had)), "{workloads}: {had:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_stop_is_not_made_up_for() {
        let mut turns = Turns::of(&table(1));
        turns.next().await;
        tokio::time::advance(100 * TICK).await;
        turns.next().await;
        let start = Instant::now();
        turns.next().await;
        assert!(start.elapsed() >= TICK / 8);
    }

    #[tokio::test(start_paused = true)]
    async fn who_comes_and_goes_has_a_turn_while_there() {
        let mut turns = Turns::of(&table(1));
        turns.update(&table(FEW + 1));
        let mut seen = 0;
        for _ in 0..40 {
            seen += turns.next().await.len();
        }
        assert_eq!(seen, FEW + 1);
        turns.update(&table(0));
        assert!(turns.next().await.is_empty());
    }
}
