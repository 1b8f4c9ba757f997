//! Pokes: word to the multi-scaler that a workload cannot wait for the next tick.
//!
//! Written by whoever records reports, after each: the stat server and the collector. Read by the multi-scaler, which
//! decides at once, and asks here again whether it still has to, for several reports may have poked before the first decision. Two
//! seconds are long for callers who find nobody, or a single pod for two hundred of them. What only has too few pods waits until the
//! other activators have told of the same moment ([`Gathering`]): each decision is a size to be written.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::collector::Collector;
use crate::decisions::Decisions;
use crate::workloads::{Workload, WorkloadsReceiver};

/// Pokes that may wait. One that finds no room is not lost: the next tick decides on its workload too.
const MAX_POKES: usize = 1024;
/// In which the reports of one moment come from all activators: they tell at the same times, a few milliseconds apart.
const GATHERING: Duration = Duration::from_millis(20);

/// Sees what is urgent, and says so. Clones say it to the same one.
#[derive(Clone, Debug)]
pub struct Pokes {
    collector: Arc<Collector>,
    decisions: Arc<Decisions>,
    workloads: WorkloadsReceiver,
    poked: mpsc::Sender<Key>,
}

/// Pokes of workloads that have pods, until all that belongs to their moment was heard.
#[derive(Debug, Default)]
pub struct Gathering {
    /// In the order in which they are due, for all wait for the same time.
    waiting: VecDeque<(Instant, Key)>,
}

// === impl Pokes ===

impl Pokes {
    /// By what was recorded and decided; and where the keys of urgent workloads come out.
    pub fn new(
        collector: Arc<Collector>,
        decisions: Arc<Decisions>,
        workloads: WorkloadsReceiver,
    ) -> (Self, mpsc::Receiver<Key>) {
        let (poked, keys) = mpsc::channel(MAX_POKES);
        (Self { collector, decisions, workloads, poked }, keys)
    }

    /// An activator holds or carries requests of this workload.
    pub fn pushed(&self, key: &Key) {
        self.poke_if(key, Self::is_urgent);
    }

    /// Pods of this workload were read.
    pub fn read(&self, key: &Key) {
        self.poke_if(key, Self::is_overtaken);
    }

    /// Whether a poke still asks for a decision.
    pub fn is_urgent(&self, workload: &Workload) -> bool {
        self.sleeps(&workload.key) || self.is_overtaken(workload)
    }

    /// Nothing was decided yet, or that there be no pods.
    pub fn sleeps(&self, key: &Key) -> bool {
        self.decisions.look(key, |newest| newest.desired == 0).unwrap_or(true)
    }

    /// By what was recorded since the newest decision.
    fn is_overtaken(&self, workload: &Workload) -> bool {
        let Workload { key, spec, measure, .. } = workload;
        let Some(averages) = self.collector.averages(key, *measure) else { return false };
        self.decisions.look(key, |newest| newest.is_overtaken(averages, spec)).unwrap_or(false)
    }

    fn poke_if(&self, key: &Key, is_so: impl Fn(&Self, &Workload) -> bool) {
        let workload = self.workloads.borrow().get(key).cloned();
        if workload.is_some_and(|workload| is_so(self, &workload))
            && self.poked.try_send(key.clone()).is_err()
        {
            tracing::debug!(workload = %key, "too many pokes are waiting; the next tick decides");
        }
    }
}

// === impl Gathering ===

impl Gathering {
    /// Takes in a poke that came now.
    pub fn add(&mut self, key: Key) {
        if self.waiting.len() < MAX_POKES {
            self.waiting.push_back((Instant::now() + GATHERING, key));
        }
    }

    /// Waits for the next one that is due. Nothing is lost if the wait is given up.
    pub async fn next(&mut self) -> Option<Key> {
        runtime::clock::sleep_until(self.waiting.front().map(|(due, _)| *due)).await;
        self.waiting.pop_front().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_poke_waits_for_what_else_is_told_of_its_moment_and_no_longer() {
        let (start, mut gathering) = (Instant::now(), Gathering::default());
        gathering.add(Key::new("shop", "web"));
        tokio::time::advance(GATHERING / 2).await;
        gathering.add(Key::new("shop", "api"));
        assert_eq!(gathering.next().await, Some(Key::new("shop", "web")));
        assert_eq!(start.elapsed(), GATHERING);
        assert_eq!(gathering.next().await, Some(Key::new("shop", "api")));
        assert_eq!(start.elapsed(), GATHERING * 3 / 2);
        // With nothing to wait for it is for ever.
        assert!(tokio::time::timeout(GATHERING, gathering.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_so_many_wait() {
        let mut gathering = Gathering::default();
        for i in 0..=MAX_POKES {
            gathering.add(Key::new("shop", i.to_string()));
        }
        assert_eq!(gathering.waiting.len(), MAX_POKES);
    }
}
