//! Observations: what the pods of each workload reported in the last seconds, until the learner
//! takes it.
//!
//! The stats scraper records one round a second, and the multi-scaler takes all rounds with each
//! decision. A round that was discarded is absent, which the learner sees as a gap.
//!
//! Bounds: 16 rounds for a workload, and a round has at most the pods that one scrape reads. Only
//! workloads of the table have rounds. At the bound all rounds of the workload are dropped, and
//! further ones until the next take: only the leader learns, and with ten thousand workloads the
//! rounds of another replica would take more than 100 MB.

use std::collections::HashMap;
use std::time::Duration;

use autoscaler::Key;
use learning::PodSecond;
use parking_lot::Mutex;

/// Rounds kept for a workload: several decisions' worth.
const MAX_ROUNDS: usize = 16;

/// Rounds that were not taken yet, by workload.
#[derive(Debug, Default)]
pub struct Observations {
    /// `None` from the bound until the next take.
    rounds: Mutex<HashMap<Key, Option<Vec<Round>>>>,
}

/// The time at which a round was due, in Unix time, and what the pods that were read reported.
type Round = (Duration, Vec<PodSecond>);

// === impl Observations ===

impl Observations {
    /// Adds the round that was due at `at`.
    pub fn record(&self, key: &Key, at: Duration, pods: Vec<PodSecond>) {
        let mut all = self.rounds.lock();
        match all.get_mut(key) {
            Some(Some(rounds)) if rounds.len() < MAX_ROUNDS => rounds.push((at, pods)),
            Some(untaken) => *untaken = None,
            None => {
                all.insert(key.clone(), Some(vec![(at, pods)]));
            }
        }
    }

    /// Removes and returns a workload's rounds, oldest first.
    pub fn take(&self, key: &Key) -> Vec<(Duration, Vec<PodSecond>)> {
        self.rounds.lock().get_mut(key).and_then(|rounds| rounds.replace(Vec::new())).unwrap_or_default()
    }

    /// Removes all other workloads.
    pub fn retain(&self, mut keep: impl FnMut(&Key) -> bool) {
        self.rounds.lock().retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new("shop", name)
    }

    fn record(observations: &Observations, name: &str, second: u64) {
        let pod = PodSecond { concurrency: second as f64, ..PodSecond::default() };
        observations.record(&key(name), Duration::from_secs(second), vec![pod]);
    }

    fn take(observations: &Observations, name: &str) -> Vec<u64> {
        let taken = observations.take(&key(name));
        taken.iter().map(|(at, pods)| (at.as_secs(), pods[0].concurrency)).for_each(|(at, load)| {
            assert_eq!(at as f64, load);
        });
        taken.iter().map(|(at, _)| at.as_secs()).collect()
    }

    #[test]
    fn takes_each_round_once_and_in_order() {
        let observations = Observations::default();
        assert_eq!(take(&observations, "web"), Vec::<u64>::new());
        for second in 1..=3 {
            record(&observations, "web", second);
        }
        record(&observations, "api", 9);
        assert_eq!(take(&observations, "web"), [1, 2, 3]);
        assert_eq!(take(&observations, "web"), Vec::<u64>::new());
        record(&observations, "web", 4);
        assert_eq!(take(&observations, "web"), [4]);
        assert_eq!(take(&observations, "api"), [9]);
    }

    #[test]
    fn rounds_that_nothing_takes_are_dropped_until_the_next_take() {
        let observations = Observations::default();
        for second in 0..16 {
            record(&observations, "web", second);
        }
        assert_eq!(take(&observations, "web").len(), 16);
        for second in 100..200 {
            record(&observations, "web", second);
        }
        assert!(observations.rounds.lock().values().all(Option::is_none));
        assert_eq!(take(&observations, "web"), Vec::<u64>::new());
        record(&observations, "web", 200);
        assert_eq!(take(&observations, "web"), [200]);
    }

    #[test]
    fn removed_workload_leaves_nothing_behind() {
        let observations = Observations::default();
        for name in ["web", "api"] {
            record(&observations, name, 1);
        }
        observations.retain(|key| key.name == "api");
        assert_eq!(observations.rounds.lock().len(), 1);
        assert_eq!(take(&observations, "api"), [1]);
    }
}
