//! ScrapeSchedule: when each workload is scraped next, for the one task that scrapes them all.
//!
//! Pods finish a second at each whole second. A round shortly after it sees a burst soonest; a
//! round exactly at it may still read the second before. Workloads are spread over the rest of the
//! second, so that not all are scraped at once. A workload whose round is still running when its
//! next second comes skips that second and delays no other. Instants are arguments.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::Key;

use crate::collection::idle_reads::IdleReads;
use crate::watches::workloads::WorkloadTable;

/// Time between rounds.
const PERIOD: Duration = Duration::from_secs(1);

/// Milliseconds after a whole second by which pods have published it: busy pods are late, and the
/// clocks of nodes differ.
const SETTLED: u64 = 60;

/// Offsets within a second at which rounds begin, from [`SETTLED`] on.
#[derive(Clone, Copy, Debug)]
struct RoundOffsets {
    count: u64,
    /// Interval between offsets, in milliseconds.
    apart: u64,
}

/// For up to this many workloads: few offsets, early in the second, so that the process wakes
/// seldom. The queries of one offset still fit any socket buffer and are answered before the next
/// offset.
const FEW_WORKLOADS: [(usize, RoundOffsets); 2] =
    [(100, RoundOffsets { count: 4, apart: 25 }), (500, RoundOffsets { count: 20, apart: 25 })];
/// For more workloads: the rest of the second. With ten thousand, about forty rounds at each
/// offset.
const MANY_WORKLOADS: RoundOffsets = RoundOffsets { count: (1000 - SETTLED) / 4, apart: 4 };

/// The next round of each workload.
#[derive(Debug, Default)]
pub struct ScrapeSchedule {
    workloads: HashMap<Key, ScheduledWorkload>,
    /// One entry a workload, and stale entries of removed workloads, which are skipped when due.
    due: BinaryHeap<Reverse<(Duration, Key)>>,
}

#[derive(Clone, Debug)]
struct ScheduledWorkload {
    next: Duration,
    running: bool,
    last: RoundResult,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueRound {
    pub key: Key,
    /// The second to record it in.
    pub due: Duration,
    pub last: RoundResult,
}

/// What one round passes to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoundResult {
    /// Whether the round failed.
    pub failing: bool,
    /// Pods with much more load than the others.
    pub outliers: Vec<SocketAddr>,
    /// When pods were last read without a request.
    pub idle_reads: IdleReads,
}

// === impl ScrapeSchedule ===

impl ScrapeSchedule {
    /// Adds workloads that are new in the table and drops those that left it.
    pub fn update(&mut self, table: &WorkloadTable, now: Duration) {
        self.workloads.retain(|key, _| table.get(key).is_some());
        for workload in table.iter() {
            if !self.workloads.contains_key(&workload.key) {
                let next = first_round(&workload.key, now, offsets(table.len()));
                let scheduled = ScheduledWorkload { next, running: false, last: RoundResult::default() };
                self.workloads.insert(workload.key.clone(), scheduled);
                self.due.push(Reverse((next, workload.key.clone())));
            }
        }
    }

    /// When the next round is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((next, _))| *next)
    }

    /// The rounds that are due at `now`.
    pub fn begin(&mut self, now: Duration) -> Vec<DueRound> {
        let mut rounds = Vec::new();
        while self.next_due().is_some_and(|next| next <= now) {
            let Some(Reverse((due, key))) = self.due.pop() else { break };
            let scheduled = self.workloads.get_mut(&key).filter(|scheduled| scheduled.next == due);
            let Some(scheduled) = scheduled else { continue };
            // Missed seconds are skipped: pods report only their last one.
            while scheduled.next <= now {
                scheduled.next += PERIOD;
            }
            self.due.push(Reverse((scheduled.next, key.clone())));
            if !std::mem::replace(&mut scheduled.running, true) {
                rounds.push(DueRound { key, due, last: std::mem::take(&mut scheduled.last) });
            }
        }
        rounds
    }

    /// Marks the running round of a workload as ended.
    pub fn end(&mut self, key: &Key, result: RoundResult) {
        if let Some(scheduled) = self.workloads.get_mut(key) {
            scheduled.running = false;
            scheduled.last = result;
        }
    }
}

fn offsets(workloads: usize) -> RoundOffsets {
    let few = FEW_WORKLOADS.into_iter().find(|(most, _)| workloads <= *most);
    few.map_or(MANY_WORKLOADS, |(_, offsets)| offsets)
}

/// When the first round is due: at the workload's own offset in the next second. Later rounds
/// follow at whole seconds after it, so every round has a second of its own.
fn first_round(key: &Key, now: Duration, offsets: RoundOffsets) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let offset = SETTLED + hasher.finish() % offsets.count * offsets.apart;
    Duration::from_secs(now.as_secs() + 1) + Duration::from_millis(offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watches::workloads::Workload;

    const T0: Duration = Duration::from_secs(1000);

    fn table(names: &[&str]) -> WorkloadTable {
        names.iter().copied().map(Workload::sample).collect()
    }

    fn names(rounds: &[DueRound]) -> Vec<&str> {
        let mut names: Vec<_> = rounds.iter().map(|round| round.key.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn each_workload_is_due_once_a_second_and_a_slow_one_delays_no_other() {
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&["quick", "slow"]), T0);
        assert!(schedule.begin(T0).is_empty());
        for second in 2..10 {
            let rounds = schedule.begin(T0 + Duration::from_secs(second));
            let expected: &[&str] = if second == 2 { &["quick", "slow"] } else { &["quick"] };
            assert_eq!(names(&rounds), expected, "second {second}");
            schedule.end(&Key::new("shop", "quick"), RoundResult::default());
        }
        schedule.end(&Key::new("shop", "slow"), RoundResult { failing: true, ..RoundResult::default() });
        let rounds = schedule.begin(T0 + Duration::from_secs(10));
        assert_eq!(names(&rounds), ["quick", "slow"]);
        assert!(rounds.iter().any(|round| round.last.failing));
    }

    #[test]
    fn rounds_begin_shortly_after_pods_finished_a_second() {
        for (workloads, last) in [(1, 135), (100, 135), (500, 535), (5000, 996)] {
            let names: Vec<_> = (0..workloads).map(|i| i.to_string()).collect();
            let mut schedule = ScrapeSchedule::default();
            let table: WorkloadTable = names.iter().map(|name| Workload::sample(name)).collect();
            schedule.update(&table, T0 + Duration::from_millis(500));
            let rounds = schedule.begin(T0 + Duration::from_secs(2));
            assert_eq!(rounds.len(), workloads);
            for DueRound { due, .. } in rounds {
                assert!((60..=last).contains(&due.subsec_millis()), "{workloads}: {due:?}");
                assert_eq!(due.as_secs(), T0.as_secs() + 1);
            }
        }
    }

    #[test]
    fn skips_missed_seconds() {
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&["web"]), T0);
        assert_eq!(schedule.begin(T0 + Duration::from_secs(100)).len(), 1);
        schedule.end(&Key::new("shop", "web"), RoundResult::default());
        assert!(schedule.begin(T0 + Duration::from_secs(100)).is_empty());
        assert!(schedule.next_due().unwrap() <= T0 + Duration::from_secs(101));
    }

    #[test]
    fn drops_removed_workloads_and_accepts_them_again() {
        let mut schedule = ScrapeSchedule::default();
        for i in 0..10 {
            schedule.update(&table(&["web", "gone"]), T0);
            schedule.update(&table(&["web"]), T0);
            let rounds = schedule.begin(T0 + Duration::from_secs(2 + i));
            assert_eq!(names(&rounds), ["web"]);
            schedule.end(&Key::new("shop", "web"), RoundResult::default());
        }
        assert!(schedule.due.len() <= 2, "{:?}", schedule.due);
    }

    #[test]
    fn every_round_has_its_own_second_when_the_loop_is_late() {
        let names: Vec<_> = (0..100).map(|i| i.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&names), T0);
        let mut seconds: HashMap<Key, Vec<u64>> = HashMap::new();
        for step in 0..200 {
            // The loop runs at any time, sometimes late by most of a second.
            let now = T0 + Duration::from_millis(1000 + step * 50 + (step * 37) % 50);
            for round in schedule.begin(now) {
                seconds.entry(round.key.clone()).or_default().push(round.due.as_secs() - T0.as_secs());
                schedule.end(&round.key, RoundResult::default());
            }
        }
        assert_eq!(seconds.len(), 100);
        for (key, seconds) in seconds {
            // A workload whose offset is late in the second may miss the last step.
            let last = *seconds.last().unwrap();
            assert!(last >= 9 && seconds.iter().copied().eq(1..=last), "{key}: {seconds:?}");
        }
    }
}
