//! Pokes: requests to the multi-scaler to decide on a workload before its next tick.
//!
//! The stat server and the scrape loop poke after they record reports. Two seconds are too long for
//! requests to a workload without pods, or for two hundred requests to a single pod. The
//! multi-scaler checks again whether the poke is still urgent, because several reports may poke
//! before the first decision.
//!
//! A workload that only has too few pods is delayed until the other activators have reported the
//! same moment ([`DelayedPokes`]), because each decision writes a size.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Decision, Key};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::collection::collector::Collector;
use crate::decisions::decision_store::DecisionStore;
use crate::learning::target_in_force::{TargetInForce, spec_in_force};
use crate::watches::workloads::{Workload, WorkloadsReceiver};

/// Pokes that may be queued. If the queue is full, the next tick decides on the workload instead.
const MAX_POKES: usize = 1024;
/// Within this time, all activators report the same moment: they report on the same schedule, a few
/// milliseconds apart.
const DELAY: Duration = Duration::from_millis(20);

/// Sends a poke for each urgent workload. Clones share one queue.
#[derive(Clone, Debug)]
pub struct Pokes {
    collector: Arc<Collector>,
    decisions: Arc<DecisionStore>,
    workloads: WorkloadsReceiver,
    queue: mpsc::Sender<Key>,
}

/// Pokes of workloads that have pods, held back until all activators have reported the same moment.
#[derive(Debug, Default)]
pub struct DelayedPokes {
    /// In the order of their due times, because every delay is the same.
    waiting: VecDeque<(Instant, Key)>,
}

// === impl Pokes ===

impl Pokes {
    /// Pokes, and the queue of the urgent workloads' keys.
    pub fn new(
        collector: Arc<Collector>,
        decisions: Arc<DecisionStore>,
        workloads: WorkloadsReceiver,
    ) -> (Self, mpsc::Receiver<Key>) {
        let (queue, keys) = mpsc::channel(MAX_POKES);
        (Self { collector, decisions, workloads, queue }, keys)
    }

    /// To call when an activator reported requests of this workload.
    pub fn on_push(&self, key: &Key) {
        self.poke_if(key, Self::is_urgent);
    }

    /// To call when the pods of this workload were scraped.
    pub fn on_scrape(&self, key: &Key) {
        self.poke_if(key, Self::is_outdated);
    }

    /// Whether the next tick is too late for this workload.
    pub fn is_urgent(&self, workload: &Workload) -> bool {
        self.is_at_zero(&workload.key) || self.is_outdated(workload)
    }

    /// Whether the newest decision is zero pods, or there is none yet.
    pub fn is_at_zero(&self, key: &Key) -> bool {
        self.decisions.read(key, |newest| newest.desired == 0).unwrap_or(true)
    }

    /// Whether the load recorded since the newest decision needs more pods than that one has.
    fn is_outdated(&self, workload: &Workload) -> bool {
        let Workload { key, measure, .. } = workload;
        let Some(averages) = self.collector.averages(key, *measure) else { return false };
        let is_outdated = |newest: &Decision| {
            let target = TargetInForce::of_decision(workload, newest);
            newest.is_outdated(averages, &spec_in_force(workload, target))
        };
        self.decisions.read(key, is_outdated).unwrap_or(false)
    }

    fn poke_if(&self, key: &Key, is_urgent: impl Fn(&Self, &Workload) -> bool) {
        let workload = self.workloads.borrow().get(key).cloned();
        if workload.is_some_and(|workload| is_urgent(self, &workload))
            && self.queue.try_send(key.clone()).is_err()
        {
            tracing::debug!(workload = %key, "poke dropped, queue full");
        }
    }
}

// === impl DelayedPokes ===

impl DelayedPokes {
    /// Adds a poke, due after the delay.
    pub fn add(&mut self, key: Key) {
        if self.waiting.len() < MAX_POKES {
            self.waiting.push_back((Instant::now() + DELAY, key));
        }
    }

    /// Waits for the next due poke; forever if there is none. Cancel-safe.
    pub async fn next(&mut self) -> Option<Key> {
        component_base::clock::sleep_until(self.waiting.front().map(|(due, _)| *due)).await;
        self.waiting.pop_front().map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn poke_is_delayed_once_and_not_by_later_pokes() {
        let (start, mut delayed) = (Instant::now(), DelayedPokes::default());
        delayed.add(Key::new("shop", "web"));
        tokio::time::advance(DELAY / 2).await;
        delayed.add(Key::new("shop", "api"));
        assert_eq!(delayed.next().await, Some(Key::new("shop", "web")));
        assert_eq!(start.elapsed(), DELAY);
        assert_eq!(delayed.next().await, Some(Key::new("shop", "api")));
        assert_eq!(start.elapsed(), DELAY * 3 / 2);
        // Without a poke it waits forever.
        assert!(tokio::time::timeout(DELAY, delayed.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn drops_pokes_above_the_limit() {
        let mut delayed = DelayedPokes::default();
        for i in 0..=MAX_POKES {
            delayed.add(Key::new("shop", i.to_string()));
        }
        assert_eq!(delayed.waiting.len(), MAX_POKES);
    }
}
