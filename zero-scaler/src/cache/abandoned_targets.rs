//! Targets at zero whose PodAutoscaler is gone, or names another target now.
//!
//! Filled by the watch of PodAutoscalers and by their reconciler, read by the search for orphans.
//! Needed for kinds that are not watched: an orphaned Deployment or StatefulSet is found by its own
//! managed fields.
//!
//! And the HPAs that get no PodAutoscaler, because the API server refuses it. Others may wait long
//! for theirs: thousands are created at the rate limit.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use autoscaler::Key;
use autoscaler::api::ScaleTargetRef;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Upper bound of the targets.
const MAX_TARGETS: usize = 10_000;

/// A target, with its namespace.
pub(crate) type Target = (String, ScaleTargetRef);

/// Targets at zero without a PodAutoscaler.
#[derive(Debug, Default)]
pub struct AbandonedTargets {
    pub(crate) workloads_at_zero: Mutex<HashSet<Target>>,
    /// HPAs without a PodAutoscaler because the API server refuses it, and since when. Bounded by
    /// the HPAs.
    refused: Mutex<HashMap<Key, Instant>>,
    pub(crate) more: Notify,
}

// === impl AbandonedTargets ===

impl AbandonedTargets {
    /// Adds a target that may be at zero.
    pub(crate) fn add(&self, namespace: &str, target: &ScaleTargetRef) {
        let mut workloads_at_zero = self.workloads_at_zero.lock();
        if workloads_at_zero.len() < MAX_TARGETS {
            workloads_at_zero.insert((namespace.to_owned(), target.clone()));
        }
        drop(workloads_at_zero);
        self.more.notify_one();
    }

    pub(crate) fn remove(&self, target: &Target) {
        self.workloads_at_zero.lock().remove(target);
    }

    /// An attempt to create the PodAutoscaler of an HPA has ended, or none is needed.
    pub(crate) fn attempted(&self, hpa: &Key, is_created: bool, now: Instant) {
        let mut refused = self.refused.lock();
        if is_created {
            refused.remove(hpa);
        } else {
            refused.entry(hpa.clone()).or_insert(now);
        }
    }

    /// Whether an HPA gets no PodAutoscaler for this time.
    pub(crate) fn is_refused_for(&self, hpa: &Key, time: Duration, now: Instant) -> bool {
        let since = self.refused.lock().get(hpa).copied();
        since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    /// Drops the HPAs that no longer exist. Returns whether some get no PodAutoscaler.
    pub(crate) fn prune_refused(&self, exists: impl Fn(&Key) -> bool) -> bool {
        let mut refused = self.refused.lock();
        refused.retain(|hpa, _| exists(hpa));
        !refused.is_empty()
    }
}
