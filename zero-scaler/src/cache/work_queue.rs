//! Which objects want to be looked at, each at most once.
//!
//! Filled by the watches, the decision stream and the wake path; emptied by the reconcilers, one stream each. A set and not
//! a queue: a thousand changes of one object are one entry, so the number of objects bounds it and nothing is ever lost.

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::key_of;
use futures::Stream;
use kube::Resource;
use kube::runtime::reflector::Store;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::cluster_cache::ClusterCache;

/// The objects of one kind that want to be looked at.
#[derive(Debug, Default)]
pub struct WorkQueue {
    pending: Mutex<BTreeSet<Key>>,
    filled: Notify,
}

/// One trigger for each reconciler.
#[derive(Debug, Default)]
pub struct WorkQueues {
    /// HorizontalPodAutoscalers.
    pub hpas: Arc<WorkQueue>,
    /// PodAutoscalers.
    pub autoscalers: Arc<WorkQueue>,
    /// ServerlessServices.
    pub serverless_services: Arc<WorkQueue>,
}

// === impl Triggers ===

impl WorkQueues {
    /// Asks for a look at every object that there is.
    pub fn everything(&self, objects: &ClusterCache) {
        self.hpas.enqueue_all(&objects.hpas);
        self.autoscalers.enqueue_all(&objects.autoscalers);
        self.serverless_services.enqueue_all(&objects.serverless_services);
    }
}

// === impl Trigger ===

impl WorkQueue {
    /// Asks for a look at this object.
    pub fn enqueue(&self, key: Key) {
        self.pending.lock().insert(key);
        self.filled.notify_one();
    }

    /// Asks for a look at all of these.
    pub fn enqueue_all<K: Resource<DynamicType = ()> + Clone>(&self, objects: &Store<K>) {
        objects.state().iter().filter_map(|object| key_of(object.as_ref())).for_each(|key| self.enqueue(key));
    }

    /// The objects asked for, for the one reconciler of the kind. Never ends.
    pub fn stream(self: Arc<Self>) -> impl Stream<Item = Key> + Send {
        futures::stream::unfold(self, |queue| async move {
            loop {
                // Created before the look: a key that comes in between leaves a permit behind.
                let filled = queue.filled.notified();
                if let Some(key) = queue.take() {
                    return Some((key, queue.clone()));
                }
                filled.await;
            }
        })
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
    async fn every_object_comes_once_however_often_it_was_asked_for() {
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
