//! WorkloadDirectory: what each workload has in this process, by key, for requests that name one.
//!
//! Requests on leased ports need no look-up, because each listener has its workload.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::Key;
use parking_lot::RwLock;

/// The workloads by key. Clones share them.
#[derive(Debug)]
pub struct WorkloadDirectory<T>(Arc<RwLock<HashMap<Key, Arc<T>>>>);

// === impl WorkloadDirectory ===

impl<T> WorkloadDirectory<T> {
    /// What this workload has; `None` for one that is not known.
    pub fn get(&self, key: &Key) -> Option<Arc<T>> {
        self.0.read().get(key).cloned()
    }

    /// Adds a workload.
    pub fn insert(&self, key: Key, workload: Arc<T>) {
        self.0.write().insert(key, workload);
    }

    /// Removes a workload, and returns it.
    pub fn remove(&self, key: &Key) -> Option<Arc<T>> {
        self.0.write().remove(key)
    }

    /// All workloads.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.0.read().values().cloned().collect()
    }
}

impl<T> Default for WorkloadDirectory<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for WorkloadDirectory<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
