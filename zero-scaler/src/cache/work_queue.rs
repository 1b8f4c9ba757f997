//! WorkQueue: the objects to reconcile, each at most once.
//!
//! Filled by the watches, the decision stream and the wake path; emptied by the reconcilers. It is
//! a set: a thousand changes of one object are one entry, so it is bounded by the number of objects
//! and drops nothing.
//!
//! What surprises: a change of nothing but the status is an entry that does not end the backoff of
//! a failed reconcile. Zero-scalers alone write these statuses, so a failure that each attempt
//! reports in other words would cause the next attempt at once.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::key_of;
use futures::Stream;
use kube::Resource;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::cluster_cache::ClusterCache;

/// The objects of one API resource to reconcile.
#[derive(Debug, Default)]
pub struct WorkQueue {
    pending: Mutex<BTreeSet<Key>>,
    /// Those with a trigger that ends a backoff, until their reconcile begins.
    urgent: Mutex<HashSet<Key>>,
    filled: Notify,
}

/// One queue for each reconciler.
#[derive(Debug, Default)]
pub struct WorkQueues {
    /// HorizontalPodAutoscalers.
    pub hpas: Arc<WorkQueue>,
    /// PodAutoscalers.
    pub autoscalers: Arc<WorkQueue>,
    pub serverless_services: Arc<WorkQueue>,
}

// === impl WorkQueues ===

impl WorkQueues {
    pub fn enqueue_everything(&self, objects: &ClusterCache) {
        self.hpas.enqueue_all(&objects.hpas);
        self.autoscalers.enqueue_all(&objects.autoscalers);
        self.serverless_services.enqueue_all(&objects.serverless_services);
    }
}

// === impl WorkQueue ===

impl WorkQueue {
    /// Enqueues an object.
    pub fn enqueue(&self, key: Key) {
        self.urgent.lock().insert(key.clone());
        self.enqueue_for_status(key);
    }

    /// Enqueues an object of which nothing but the status changed.
    pub fn enqueue_for_status(&self, key: Key) {
        self.pending.lock().insert(key);
        self.filled.notify_one();
    }

    /// Enqueues all objects of a store.
    pub fn enqueue_all<K: Resource<DynamicType = ()> + Clone>(&self, objects: &Store<K>) {
        objects.state().iter().filter_map(|object| key_of(object.as_ref())).for_each(|key| self.enqueue(key));
    }

    /// The enqueued objects, for the only reconciler of this API resource. Never ends.
    pub fn stream(self: Arc<Self>) -> impl Stream<Item = Key> + Send {
        futures::stream::unfold(self, |queue| async move {
            loop {
                // Created before `take`: a key enqueued in between leaves a permit.
                let filled = queue.filled.notified();
                if let Some(key) = queue.take() {
                    return Some((key, queue.clone()));
                }
                filled.await;
            }
        })
    }

    /// Begins the reconcile of an object, or drops a deleted one. Returns whether it was enqueued
    /// for more than its status.
    pub fn begin(&self, key: &Key) -> bool {
        self.urgent.lock().remove(key)
    }

    fn take(&self) -> Option<Key> {
        self.pending.lock().pop_first()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt, pin_mut};

    use super::*;

    #[tokio::test]
    async fn yields_each_object_once_however_often_enqueued() {
        let queue = Arc::new(WorkQueue::default());
        let stream = queue.clone().stream();
        pin_mut!(stream);
        for name in ["b", "a", "b", "b"] {
            queue.enqueue(Key::new("shop", name));
        }
        assert_eq!(stream.next().await, Some(Key::new("shop", "a")));
        assert_eq!(stream.next().await, Some(Key::new("shop", "b")));
        assert_eq!(stream.next().now_or_never(), None);
        queue.enqueue(Key::new("shop", "b"));
        assert_eq!(stream.next().await, Some(Key::new("shop", "b")));
    }
}
