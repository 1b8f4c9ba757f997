//! Pokes: word to the multi-scaler that a workload cannot wait for the next tick.
//!
//! Written by whoever records reports, after each: the stat server and the collector. Read by the multi-scaler, which
//! decides at once, and asks here again whether it still has to, for several reports may have poked before the first decision. Two
//! seconds are long for callers who find nobody, or a single pod for two hundred of them.

use std::sync::Arc;

use autoscaler::Key;
use tokio::sync::mpsc;

use crate::collector::Collector;
use crate::decisions::Decisions;
use crate::workloads::{Workload, WorkloadsReceiver};

/// Pokes that may wait. One that finds no room is not lost: the next tick decides on its workload too.
const MAX_POKES: usize = 1024;

/// Sees what is urgent, and says so. Clones say it to the same one.
#[derive(Clone, Debug)]
pub struct Pokes {
    collector: Arc<Collector>,
    decisions: Arc<Decisions>,
    workloads: WorkloadsReceiver,
    poked: mpsc::Sender<Key>,
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
    fn sleeps(&self, key: &Key) -> bool {
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
