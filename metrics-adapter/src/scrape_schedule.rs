//! ScrapeSchedule: when each workload is read next, for the one task that reads them all.
//!
//! Pods finish a second at each whole second, so a round soon after it hears of a burst soonest, and one right at it may hear of
//! the second before. Each workload has its own moment of those that are left, so that not all are read at once. A workload that is
//! still being read when its next second comes misses that second, and delays no other. Instants are arguments.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use autoscaler::Key;

use crate::workloads::Workloads;

/// Time between rounds.
const PERIOD: Duration = Duration::from_secs(1);

/// Milliseconds after a whole second by which pods have finished it: busy ones are late, and nodes' clocks differ.
const SETTLED: u64 = 60;

/// Moments of a second at which rounds begin, from [`SETTLED`] on.
#[derive(Clone, Copy, Debug)]
struct Moments {
    count: u64,
    /// In milliseconds.
    apart: u64,
}

/// Of up to so many workloads: few moments, so that the process is woken seldom, and soon. The questions of one are still few enough for
/// any socket's buffer, and answered before the next.
const TOGETHER: [(usize, Moments); 2] =
    [(100, Moments { count: 4, apart: 25 }), (500, Moments { count: 20, apart: 25 })];
/// Of more: the rest of the second, some forty rounds of ten thousand at each.
const AMONG_MANY: Moments = Moments { count: (1000 - SETTLED) / 4, apart: 4 };

/// What is due when.
#[derive(Debug, Default)]
pub struct ScrapeSchedule {
    known: HashMap<Key, Known>,
    /// With what was forgotten or put off since, which is skipped when its time comes: one entry a workload, and the forgotten.
    due: BinaryHeap<Reverse<(Duration, Key)>>,
}

#[derive(Clone, Debug)]
struct Known {
    next: Duration,
    running: bool,
    last: Outcome,
}

/// A round to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    /// Of this workload.
    pub key: Key,
    /// The second that it is for.
    pub due: Duration,
    /// What the last one left.
    pub last: Outcome,
}

/// What one round leaves to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it failed.
    pub failing: bool,
    /// Pods that carry much more than the others.
    pub outliers: Vec<IpAddr>,
}

// === impl ScrapeSchedule ===

impl ScrapeSchedule {
    /// Takes in workloads that are new in the table, and forgets those that are not in it.
    pub fn update(&mut self, table: &Workloads, now: Duration) {
        self.known.retain(|key, _| table.get(key).is_some());
        for workload in table.iter() {
            if !self.known.contains_key(&workload.key) {
                let next = first_round(&workload.key, now, moments(table.len()));
                self.known
                    .insert(workload.key.clone(), Known { next, running: false, last: Outcome::default() });
                self.due.push(Reverse((next, workload.key.clone())));
            }
        }
    }

    /// When there is next something to begin.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((next, _))| *next)
    }

    /// The rounds that are due at `now`.
    pub fn begin(&mut self, now: Duration) -> Vec<Round> {
        let mut rounds = Vec::new();
        while self.next_due().is_some_and(|next| next <= now) {
            let Some(Reverse((due, key))) = self.due.pop() else { break };
            let Some(known) = self.known.get_mut(&key).filter(|known| known.next == due) else { continue };
            // Seconds that were missed are gone: there is nobody to ask what they were like.
            while known.next <= now {
                known.next += PERIOD;
            }
            self.due.push(Reverse((known.next, key.clone())));
            if !std::mem::replace(&mut known.running, true) {
                rounds.push(Round { key, due, last: std::mem::take(&mut known.last) });
            }
        }
        rounds
    }

    /// A round has ended.
    pub fn ended(&mut self, key: &Key, outcome: Outcome) {
        if let Some(known) = self.known.get_mut(key) {
            known.running = false;
            known.last = outcome;
        }
    }
}

fn moments(workloads: usize) -> Moments {
    TOGETHER.into_iter().find(|(most, _)| workloads <= *most).map_or(AMONG_MANY, |(_, moments)| moments)
}

/// When to begin: each workload at its own moment of a second, and from then on at whole seconds after it, so that every round has
/// a second of its own.
fn first_round(key: &Key, now: Duration, moments: Moments) -> Duration {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let moment = SETTLED + hasher.finish() % moments.count * moments.apart;
    Duration::from_secs(now.as_secs() + 1) + Duration::from_millis(moment)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::workloads::Workload;

    const T0: Duration = Duration::from_secs(1000);

    fn table(names: &[&str]) -> Workloads {
        names.iter().copied().map(Workload::sample).collect()
    }

    fn names(rounds: &[Round]) -> Vec<&str> {
        let mut names: Vec<_> = rounds.iter().map(|round| round.key.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn everybody_is_due_once_a_second_and_who_is_slow_delays_nobody() {
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&["quick", "slow"]), T0);
        assert!(schedule.begin(T0).is_empty());
        for second in 2..10 {
            let rounds = schedule.begin(T0 + Duration::from_secs(second));
            let expected: &[&str] = if second == 2 { &["quick", "slow"] } else { &["quick"] };
            assert_eq!(names(&rounds), expected, "second {second}");
            schedule.ended(&Key::new("shop", "quick"), Outcome::default());
        }
        schedule.ended(&Key::new("shop", "slow"), Outcome { failing: true, ..Outcome::default() });
        let rounds = schedule.begin(T0 + Duration::from_secs(10));
        assert_eq!(names(&rounds), ["quick", "slow"]);
        assert!(rounds.iter().any(|round| round.last.failing));
    }

    #[test]
    fn rounds_begin_soon_after_pods_finished_a_second_and_never_before() {
        for (workloads, last) in [(1, 135), (100, 135), (500, 535), (5000, 996)] {
            let names: Vec<_> = (0..workloads).map(|i| i.to_string()).collect();
            let mut schedule = ScrapeSchedule::default();
            let table: Workloads = names.iter().map(|name| Workload::sample(name)).collect();
            schedule.update(&table, T0 + Duration::from_millis(500));
            let rounds = schedule.begin(T0 + Duration::from_secs(2));
            assert_eq!(rounds.len(), workloads);
            for Round { due, .. } in rounds {
                assert!((60..=last).contains(&due.subsec_millis()), "{workloads}: {due:?}");
                assert_eq!(due.as_secs(), T0.as_secs() + 1);
            }
        }
    }

    #[test]
    fn seconds_that_were_missed_are_not_made_up_for() {
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&["web"]), T0);
        assert_eq!(schedule.begin(T0 + Duration::from_secs(100)).len(), 1);
        schedule.ended(&Key::new("shop", "web"), Outcome::default());
        assert!(schedule.begin(T0 + Duration::from_secs(100)).is_empty());
        assert!(schedule.next_due().unwrap() <= T0 + Duration::from_secs(101));
    }

    #[test]
    fn who_leaves_the_table_is_forgotten_and_may_come_back() {
        let mut schedule = ScrapeSchedule::default();
        for i in 0..10 {
            schedule.update(&table(&["web", "gone"]), T0);
            schedule.update(&table(&["web"]), T0);
            let rounds = schedule.begin(T0 + Duration::from_secs(2 + i));
            assert_eq!(names(&rounds), ["web"]);
            schedule.ended(&Key::new("shop", "web"), Outcome::default());
        }
        assert!(schedule.due.len() <= 2, "{:?}", schedule.due);
    }

    #[test]
    fn every_round_has_a_second_of_its_own_however_late_it_begins() {
        let names: Vec<_> = (0..100).map(|i| i.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let mut schedule = ScrapeSchedule::default();
        schedule.update(&table(&names), T0);
        let mut seconds: HashMap<Key, Vec<u64>> = HashMap::new();
        for step in 0..200 {
            // Looks come at any time, some of them late by most of a second.
            let now = T0 + Duration::from_millis(1000 + step * 50 + (step * 37) % 50);
            for round in schedule.begin(now) {
                seconds.entry(round.key.clone()).or_default().push(round.due.as_secs() - T0.as_secs());
                schedule.ended(&round.key, Outcome::default());
            }
        }
        assert_eq!(seconds.len(), 100);
        for (key, seconds) in seconds {
            // Whoever is due late in a second was not looked at in the last one.
            let last = *seconds.last().unwrap();
            assert!(last >= 9 && seconds.iter().copied().eq(1..=last), "{key}: {seconds:?}");
        }
    }
}
