//! History: the last looks at each workload, with all that a decision went by.
//!
//! Written by the multi-scaler with every look, read by `/why`. Bounded: so many looks a workload, and the workloads that there
//! are. A follower's looks are its own; they are shown once it leads.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::collection::Averages;
use autoscaler::decider::Verdict;
use parking_lot::{Mutex, MutexGuard};

use crate::workloads::Workload;

/// Looks kept of each workload: half a minute.
const KEPT: usize = 15;

/// All histories.
#[derive(Debug, Default)]
pub struct History {
    looks: Mutex<HashMap<Key, VecDeque<Look>>>,
}

/// One look at a workload.
#[derive(Clone, Debug)]
pub struct Look {
    /// When, in Unix milliseconds.
    pub at: i64,
    /// As it was configured then.
    pub workload: Arc<Workload>,
    /// Ready pods.
    pub ready: u32,
    /// Averages of the windows; `None` without data.
    pub averages: Option<Averages>,
    /// Since when it was idle by everybody's word, in Unix milliseconds.
    pub idle_since: Option<i64>,
    /// What was decided; `None` if nothing could be.
    pub verdict: Option<Verdict>,
    /// Whether a burst was on, after the decision.
    pub panicking: bool,
    /// For how long the panic threshold had not been exceeded, if one was on.
    pub calm: Option<Duration>,
}

// === impl History ===

impl History {
    /// Takes in a look.
    pub fn record(&self, look: Look) {
        let mut looks = self.lock();
        let known = looks.entry(look.workload.key.clone()).or_default();
        if known.len() >= KEPT {
            known.pop_front();
        }
        known.push_back(look);
    }

    /// Forgets the workloads that are not to be kept.
    pub fn retain(&self, keep: impl Fn(&Key) -> bool) {
        self.lock().retain(|key, _| keep(key));
    }

    /// The looks at a workload, the newest first.
    pub fn of(&self, key: &Key) -> Vec<Look> {
        self.lock().get(key).into_iter().flatten().rev().cloned().collect()
    }

    /// Whether anything was decided on a workload of late.
    pub fn has_decided(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(|looks| looks.iter().any(|look| look.verdict.is_some()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, VecDeque<Look>>> {
        self.looks.lock()
    }
}
