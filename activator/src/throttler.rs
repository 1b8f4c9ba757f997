//! Throttler: all workloads, each with its own throttler and its listeners; created, changed and removed as told.
//!
//! One task owns this. Requests never come here: each listener holds its workload's throttler.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use autoscaler::Key;
use chassis::health_checks::HealthChecks;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::args::Limits;
use crate::concurrency_reporter::ConcurrencyReporter;
use crate::forward::Forwarder;
use crate::handler::Handler;
use crate::held_places::HeldPlaces;
use crate::listeners::Listeners;
use crate::metrics::Metrics;
use crate::workload_throttler::WorkloadThrottler;
use crate::workloads::{Change, Index, Update, Workload};

/// What all workloads of the process share.
#[derive(Debug)]
pub struct Shared {
    /// To the pods.
    pub forwarder: Forwarder,
    /// To the adapters and zero-scalers.
    pub reporter: ConcurrencyReporter,
    /// All families.
    pub metrics: Arc<Metrics>,
    /// Who only asks whether a workload is alive.
    pub health_checks: HealthChecks,
    /// Places for held requests, of all workloads together.
    pub held: HeldPlaces,
    /// How many requests may wait, and how long.
    pub limits: Limits,
    /// Set when the process stops: callers should connect elsewhere.
    pub draining: AtomicBool,
}

/// The workloads, by key.
#[derive(Debug)]
pub struct Throttler {
    shared: Arc<Shared>,
    index: Index,
    workloads: HashMap<Key, Arc<WorkloadThrottler>>,
    listeners: Listeners,
}

// === impl Throttler ===

impl Throttler {
    /// No workloads yet.
    pub fn new(shared: Arc<Shared>, listeners: Listeners) -> Self {
        Self { shared, index: Index::default(), workloads: HashMap::new(), listeners }
    }

    /// Applies changes until nobody tells any more.
    pub async fn run(mut self, mut changes: mpsc::Receiver<Change>) {
        while let Some(change) = changes.recv().await {
            for update in self.index.apply(change) {
                self.apply(update);
            }
        }
        // What is open stays open: the data plane goes on with what it knows.
        std::future::pending().await
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Workload(key, workload) => self.put(key, workload),
            Update::Removed(key) => self.remove(&key),
            Update::Pod(key, name, endpoint) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.set_pod(&name, endpoint, Instant::now());
                }
            }
            Update::Starting(key, uid, scheduled) => {
                if let Some(throttler) = self.workloads.get(&key) {
                    throttler.pod_starts().seen(&uid, scheduled, Instant::now());
                }
            }
        }
    }

    fn put(&mut self, key: Key, workload: Workload) {
        let ports = workload.ports.clone();
        let throttler = match self.workloads.get(&key) {
            Some(throttler) => {
                throttler.update(workload);
                throttler.clone()
            }
            None => {
                tracing::info!(workload = %key, "workload");
                let throttler = WorkloadThrottler::new(key.clone(), workload, self.shared.clone());
                self.workloads.insert(key.clone(), throttler.clone());
                throttler
            }
        };
        let shared = &self.shared;
        self.listeners
            .keep(&key, &ports, |lease| Handler::new(shared.clone(), throttler.clone(), lease.pod_port));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(throttler) = self.workloads.remove(key) {
            tracing::info!(workload = %key, "workload is gone");
            self.listeners.close(key);
            throttler.end();
            self.shared.metrics.forget(key);
        }
    }
}
