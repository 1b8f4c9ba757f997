//! Targets at zero whose PodAutoscaler is gone, or names another target now.
//!
//! Filled by the watch of PodAutoscalers and by their reconciler, read by the search for orphans.
//! Needed for kinds that are not watched: an orphaned Deployment or StatefulSet is found by its own
//! managed fields.

use std::collections::HashSet;

use autoscaler::api::ScaleTargetRef;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Upper bound of the targets.
const MAX_TARGETS: usize = 10_000;

/// A target, with its namespace.
pub(crate) type Target = (String, ScaleTargetRef);

/// Targets at zero without a PodAutoscaler.
#[derive(Debug, Default)]
pub struct AbandonedTargets {
    workloads_at_zero: Mutex<HashSet<Target>>,
    pub(crate) more: Notify,
}

// === impl AbandonedTargets ===

impl AbandonedTargets {
    /// Adds a target that may be at zero.
    pub(crate) fn add(&self, namespace: &str, target: &ScaleTargetRef) {
        let mut workloads_at_zero = self.lock();
        if workloads_at_zero.len() < MAX_TARGETS {
            workloads_at_zero.insert((namespace.to_owned(), target.clone()));
        }
        drop(workloads_at_zero);
        self.more.notify_one();
    }

    pub(crate) fn forget(&self, target: &Target) {
        self.lock().remove(target);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<Target>> {
        self.workloads_at_zero.lock()
    }
}
