//! WorkloadPods: the pods and the settings of one workload, and what each request reads of both:
//! whether it may wait, and whether a pod is to be probed.
//!
//! Input: pods and settings, from the workload's throttler, and ended probes. Every change goes to
//! the [`SlotQueue`], which owns the pods and grants the slots that a change frees.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use autoscaler::Key;

use crate::pods::pod_set::PodSet;
use crate::pods::pod_tracker::PodTracker;
use crate::queue::admission::AdmissionGate;
use crate::queue::slot_queue::SlotQueue;
use crate::workloads::Workload;

/// The pods of one workload.
#[derive(Debug)]
pub struct WorkloadPods {
    key: Key,
    settings: ArcSwap<Workload>,
    queue: Arc<SlotQueue>,
    admission: AdmissionGate,
    /// Whether a pod is neither usable nor being probed. Read by every request, written with the
    /// pods.
    has_unprobed: AtomicBool,
}

// === impl WorkloadPods ===

impl WorkloadPods {
    /// No pods.
    pub(super) fn new(key: Key, settings: Workload, queue: Arc<SlotQueue>) -> Self {
        let (settings, admission) = (ArcSwap::from_pointee(settings), AdmissionGate::default());
        let pods = Self { key, settings, queue, admission, has_unprobed: AtomicBool::new(false) };
        pods.change(|_| {});
        pods
    }

    /// The workload's name.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// The workload's settings.
    pub(super) fn settings(&self) -> Guard<Arc<Workload>> {
        self.settings.load()
    }

    /// The requests that wait for the pods.
    pub(super) fn queue(&self) -> &Arc<SlotQueue> {
        &self.queue
    }

    /// Whether requests may wait.
    pub(super) fn admission(&self) -> &AdmissionGate {
        &self.admission
    }

    /// Applies a new state of the workload, of which at most `bound` requests may wait.
    pub(super) fn set_settings(&self, settings: Workload, bound: usize) {
        self.queue.set_workload(&settings, bound);
        self.settings.store(Arc::new(settings));
        self.change(|_| {});
    }

    /// Changes the pods.
    pub(super) fn change(&self, change: impl FnOnce(&mut PodSet)) {
        self.queue.change_pods(|pods| {
            change(pods);
            self.refresh(pods);
        });
    }

    /// Whether [`take_unprobed`](Self::take_unprobed) would return a pod.
    pub(super) fn has_unprobed(&self) -> bool {
        self.has_unprobed.load(Ordering::SeqCst)
    }

    /// The pods that are neither usable nor being probed; from now on they count as probed.
    pub(super) fn take_unprobed(&self) -> Vec<Arc<PodTracker>> {
        self.queue.with_pods(|pods| {
            let unprobed = pods.take_unprobed();
            self.refresh(pods);
            unprobed
        })
    }

    /// Updates what is derived from the pods and the settings.
    fn refresh(&self, pods: &PodSet) {
        self.has_unprobed.store(pods.has_unprobed(), Ordering::SeqCst);
        self.admission.update(pods.has_usable(), &self.settings.load());
    }
}
