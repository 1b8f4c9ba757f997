//! DecisionHistory: the last decisions on each workload, with the data behind them.
//!
//! The multi-scaler records every attempt to decide, with data or without; `/why` shows them. The
//! history is bounded per workload, and workloads that left the table are dropped. A follower
//! records its own attempts, and shows them once it leads. It also has the last changes of the
//! learned target, the [last hour](HourHistory) of each workload in few numbers, the clients that
//! ended its idleness, and how often its metric is queried.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::history::{ClientVisits, FirstRequest, FirstRequests, HourHistory, Sample, Wake};
use autoscaler::learning_report::Phase;
use autoscaler::scaling::decider::{DeciderSpec, ScaleResult};
use autoscaler::stats::collection::WindowAverages;
use parking_lot::Mutex;

use crate::decisions::query_times::QueryTimes;
use crate::watches::workloads::Workload;

/// Records kept per workload: half a minute.
const MAX_RECORDS: usize = 15;
/// Changes of the learned target kept per workload.
const MAX_TARGET_CHANGES: usize = 10;

/// The history of every workload.
#[derive(Debug, Default)]
pub struct DecisionHistory {
    workloads: Mutex<HashMap<Key, WorkloadHistory>>,
}

#[derive(Debug, Default)]
struct WorkloadHistory {
    records: VecDeque<DecisionRecord>,
    target_changes: VecDeque<TargetChange>,
    hour: HourHistory,
    first_requests: FirstRequests,
    queries: QueryTimes,
}

/// One attempt to decide on a workload.
#[derive(Clone, Debug)]
pub struct DecisionRecord {
    /// Time of the attempt, in Unix milliseconds.
    pub at: i64,
    /// The workload as configured at that time.
    pub workload: Arc<Workload>,
    /// The settings of the decision, with the target in force.
    pub spec: DeciderSpec,
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

/// A change of the learned target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TargetChange {
    /// Time of the change, in Unix milliseconds.
    pub at: i64,
    /// The target before.
    pub from: f64,
    /// The target from then on.
    pub to: f64,
    /// The phase after the change.
    pub phase: Phase,
}

// === impl DecisionHistory ===

impl DecisionHistory {
    /// Adds a record, in place of the oldest one if the history is full.
    pub fn record(&self, record: DecisionRecord) {
        let mut all = self.workloads.lock();
        let history = all.entry(record.workload.key.clone()).or_default();
        if record.ready == 0 {
            history.queries.at_zero();
        }
        push(&mut history.records, record, MAX_RECORDS);
    }

    /// Adds a change of a workload's learned target, in place of the oldest one.
    pub fn record_target_change(&self, key: &Key, change: TargetChange) {
        let mut all = self.workloads.lock();
        let history = all.entry(key.clone()).or_default();
        push(&mut history.target_changes, change, MAX_TARGET_CHANGES);
    }

    /// Adds the state of a workload at `at`, in Unix milliseconds, to its last hour.
    pub fn record_sample(&self, key: &Key, at: i64, sample: Sample) {
        self.workloads.lock().entry(key.clone()).or_default().hour.record(at, sample);
    }

    /// Adds a wake to the last hour of a workload that is decided on; `now` is in Unix
    /// milliseconds.
    pub fn record_wake(&self, key: &Key, wake: Wake, now: i64) {
        // Only the table adds workloads, never a report.
        if let Some(history) = self.workloads.lock().get_mut(key) {
            history.hour.record_wake(wake, now);
        }
    }

    /// Adds a request that ended a second without requests; `now` is in Unix milliseconds.
    pub fn record_first_request(&self, key: &Key, request: FirstRequest, now: i64) {
        if let Some(history) = self.workloads.lock().get_mut(key) {
            history.first_requests.record(request, now);
        }
    }

    /// The clients of such requests in the last hour, the most frequent first.
    pub fn first_requests(&self, key: &Key, now: i64) -> Vec<ClientVisits> {
        self.workloads.lock().get(key).map(|history| history.first_requests.clients(now)).unwrap_or_default()
    }

    /// Reads from the last hour of a workload.
    pub fn read_hour<T>(&self, key: &Key, read: impl FnOnce(&HourHistory) -> T) -> Option<T> {
        self.workloads.lock().get(key).map(|history| read(&history.hour))
    }

    /// Adds a query of the metric of a workload that is decided on. Returns the milliseconds since
    /// the query before, unless the workload was at zero in between.
    pub fn record_query(&self, key: &Key, at: i64) -> Option<i64> {
        self.workloads.lock().get_mut(key)?.queries.queried(at)
    }

    /// The milliseconds between the last two queries of a workload's metric.
    pub fn query_interval(&self, key: &Key) -> Option<i64> {
        self.workloads.lock().get(key)?.queries.interval()
    }

    /// Drops the history of all workloads for which `keep` is false.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        self.workloads.lock().retain(|key, _| keep(key));
    }

    /// The records of a workload, the newest first.
    pub fn of(&self, key: &Key) -> Vec<DecisionRecord> {
        let all = self.workloads.lock();
        all.get(key).into_iter().flat_map(|history| &history.records).rev().cloned().collect()
    }

    /// The last changes of a workload's learned target, the newest first.
    pub fn target_changes(&self, key: &Key) -> Vec<TargetChange> {
        let all = self.workloads.lock();
        all.get(key).into_iter().flat_map(|history| &history.target_changes).rev().copied().collect()
    }

    /// Whether one of the records of a workload has a decision.
    pub fn has_decided(&self, key: &Key) -> bool {
        let all = self.workloads.lock();
        all.get(key).is_some_and(|history| history.records.iter().any(|record| record.result.is_some()))
    }
}

fn push<T>(entries: &mut VecDeque<T>, entry: T, most: usize) {
    if entries.len() >= most {
        entries.pop_front();
    }
    entries.push_back(entry);
}
