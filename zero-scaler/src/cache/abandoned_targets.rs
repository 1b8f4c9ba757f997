//! Targets at zero whose PodAutoscaler is gone.
//!
//! Filled by the watch of PodAutoscalers, read by the search for orphans. Needed for kinds that are
//! not watched: an orphaned Deployment or StatefulSet is found by its own managed fields.

use std::collections::HashSet;

use autoscaler::api::{PodAutoscaler, ScaleTargetRef};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::cache::last_activation::is_parked_at_zero;

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
    /// Adds the target of a deleted PodAutoscaler, if it is at zero.
    pub(crate) fn add(&self, namespace: &str, autoscaler: &PodAutoscaler) {
        if is_parked_at_zero(autoscaler) {
            let mut workloads_at_zero = self.lock();
            if workloads_at_zero.len() < MAX_TARGETS {
                workloads_at_zero.insert((namespace.to_owned(), autoscaler.spec.scale_target_ref.clone()));
            }
            drop(workloads_at_zero);
            self.more.notify_one();
        }
    }

    pub(crate) fn forget(&self, target: &Target) {
        self.lock().remove(target);
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashSet<Target>> {
        self.workloads_at_zero.lock()
    }
}
