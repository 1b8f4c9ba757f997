//! StoredLearning: what the statuses of PodAutoscalers have about learning.
//!
//! The leader's learners write it, by way of the decision stream and the zero-scaler. A new leader
//! continues from the checkpoint, and followers decide with the target. It comes from the store of
//! the metric watch and not from the workload table, which every checkpoint would rebuild.

use autoscaler::Key;
use autoscaler::api::{LearningStatus, PodAutoscaler};
use component_base::kubernetes::Decoded;
use kube::runtime::reflector::{self, ObjectRef, Store};
use learning::LearnerState;

/// The statuses of all PodAutoscalers. Clones share them.
#[derive(Clone)]
pub struct StoredLearning {
    pod_autoscalers: Store<Decoded<PodAutoscaler>>,
}

// === impl StoredLearning ===

impl StoredLearning {
    /// The statuses of the objects in a store.
    pub fn new(pod_autoscalers: Store<Decoded<PodAutoscaler>>) -> Self {
        Self { pod_autoscalers }
    }

    /// The state of a workload's learner; `None` without one.
    ///
    /// # Errors
    /// If it cannot be decoded, as one of another version.
    pub fn checkpoint(&self, key: &Key) -> Result<Option<LearnerState>, serde_json::Error> {
        let decoded = self.read(key, |learning| Some(serde_json::from_str(learning.checkpoint.as_deref()?)));
        decoded.transpose()
    }

    /// The learned target of a workload.
    pub fn target(&self, key: &Key) -> Option<f64> {
        self.read(key, LearningStatus::target)
    }

    fn read<T>(&self, key: &Key, read: impl FnOnce(&LearningStatus) -> Option<T>) -> Option<T> {
        let object = self.pod_autoscalers.get(&ObjectRef::new(&key.name).within(&key.namespace))?;
        read(object.0.as_ref().ok()?.status.as_ref()?.learning.as_ref()?)
    }
}

impl Default for StoredLearning {
    /// Without any object.
    fn default() -> Self {
        Self::new(reflector::store().0)
    }
}

impl std::fmt::Debug for StoredLearning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLearning").finish_non_exhaustive()
    }
}
