//! DecisionHistory: the last decisions on each workload, with the data behind them.
//!
//! The multi-scaler records every attempt to decide, with data or without; `/why` shows them. The
//! history is bounded per workload, and workloads that left the table are dropped. A follower
//! records its own attempts, and shows them once it leads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::scaling::decider::ScaleResult;
use autoscaler::stats::collection::WindowAverages;
use parking_lot::{Mutex, MutexGuard};

use crate::watches::workloads::Workload;

/// Records kept per workload: half a minute.
const MAX_RECORDS: usize = 15;

/// The history of every workload.
#[derive(Debug, Default)]
pub struct DecisionHistory {
    records: Mutex<HashMap<Key, VecDeque<DecisionRecord>>>,
}

/// One attempt to decide on a workload.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// Time of the attempt, in Unix milliseconds.
    pub at: i64,
    /// The workload as configured at that time.
    pub workload: Arc<Workload>,
    /// Ready pods.
    pub ready: u32,
    /// Averages of the windows; `None` without data.
    pub averages: Option<WindowAverages>,
    /// Since when all pods and activators reported it as idle, in Unix milliseconds.
    pub idle_since: Option<i64>,
    /// The decision; `None` without data.
    pub result: Option<ScaleResult>,
    /// Whether the decider was in panic after the decision.
    pub panicking: bool,
    /// In panic: for how long the load had stayed below the panic threshold.
    pub calm: Option<Duration>,
}

// === impl DecisionHistory ===

impl DecisionHistory {
    /// Adds a record, in place of the oldest one if the history is full.
    pub fn record(&self, record: DecisionRecord) {
        let mut all = self.lock();
        let records = all.entry(record.workload.key.clone()).or_default();
        if records.len() >= MAX_RECORDS {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// Drops the history of all workloads for which `keep` is false.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        self.lock().retain(|key, _| keep(key));
    }

    /// The records of a workload, the newest first.
    pub fn of(&self, key: &Key) -> Vec<DecisionRecord> {
        self.lock().get(key).into_iter().flatten().rev().cloned().collect()
    }

    /// Whether one of the records of a workload has a decision.
    pub fn has_decided(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|records| records.iter().any(|record| record.result.is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, VecDeque<DecisionRecord>>> {
        self.records.lock()
    }
}
