//! Pods without the label of the sidecar, of the namespaces that have a workload without one.
//!
//! Labelled pods come from a watch of the whole cluster; the two never have a pod in common. A
//! namespace that leaves the set takes its pods along, as if they were deleted.

use std::collections::HashMap;

use autoscaler::Key;
use autoscaler::api::key_of;
use autoscaler::routing::proximity::Location;
use component_base::kubernetes::{Decoded, NamespaceEvent, NamespaceWatches};
use kube::runtime::watcher::Event;
use tokio::sync::mpsc;

use super::listed_keys::ListedKeys;
use super::persisted_objects::PersistedObjects;
use super::trimmed_pod::{TrimmedPod, trim_pod};
use crate::workloads::{ClusterChange, Pod};

/// Follows the name of a pod in [`ClusterChange`]. No name of a pod contains it. A pod of a
/// StatefulSet keeps its name when it loses the label: its deletion, by the watch of labelled
/// pods, may come after its successor, and must not remove that.
const UNLABELLED: &str = "/unlabelled";

/// Turns the events of the watches into changes.
pub(super) struct PodsOfNamespaces {
    /// Where this process runs.
    own: Location,
    persisted: PersistedObjects<TrimmedPod>,
    /// Pods of an earlier process, by namespace, until the namespace is listed.
    restored: HashMap<String, Vec<TrimmedPod>>,
    keys: HashMap<String, ListedKeys>,
    changes: mpsc::Sender<ClusterChange>,
}

/// The receiver of changes was dropped.
struct ReceiverDropped;

// === impl PodsOfNamespaces ===

impl PodsOfNamespaces {
    pub(super) fn new(
        own: Location,
        persisted: PersistedObjects<TrimmedPod>,
        changes: mpsc::Sender<ClusterChange>,
    ) -> Self {
        let mut restored: HashMap<_, Vec<_>> = HashMap::new();
        for pod in persisted.load() {
            if let Some(key) = key_of(&pod) {
                restored.entry(key.namespace).or_default().push(TrimmedPod { is_persisted: true, ..pod });
            }
        }
        Self { own, persisted, restored, keys: HashMap::new(), changes }
    }

    /// Ends when the receiver of the changes is dropped, or the sender of the namespaces.
    pub(super) async fn run(mut self, mut watches: NamespaceWatches<TrimmedPod>) {
        loop {
            let event = tokio::select! {
                event = watches.next() => event,
                () = self.persisted.progress() => continue,
            };
            let applied = match event {
                Some(NamespaceEvent::Objects(namespace, event)) => self.apply(&namespace, event).await,
                Some(NamespaceEvent::Left(namespace)) => self.leave(&namespace).await,
                None => return,
            };
            if applied.is_err() {
                return;
            }
        }
    }

    async fn apply(
        &mut self,
        namespace: &str,
        event: Event<Decoded<TrimmedPod>>,
    ) -> Result<(), ReceiverDropped> {
        let event = event.modify(trim_pod);
        if matches!(event, Event::Init)
            && let Some(restored) = self.restored.remove(namespace)
        {
            for pod in restored {
                self.persisted.restore(pod.clone());
                self.send(namespace, Event::Apply(pod.into())).await?;
            }
        }
        self.persisted.apply_in(Some(namespace), &event);
        self.send(namespace, event).await
    }

    async fn leave(&mut self, namespace: &str) -> Result<(), ReceiverDropped> {
        self.persisted.remove_namespace(namespace);
        let keys = self.keys.remove(namespace).unwrap_or_default();
        for key in keys.into_keys() {
            self.send_change(key, None).await?;
        }
        Ok(())
    }

    async fn send(
        &mut self,
        namespace: &str,
        event: Event<Decoded<TrimmedPod>>,
    ) -> Result<(), ReceiverDropped> {
        let keys = self.keys.entry(namespace.to_owned()).or_default();
        for (key, pod) in keys.apply(event, |pod| pod.read(&self.own)) {
            self.send_change(key, pod).await?;
        }
        Ok(())
    }

    async fn send_change(&self, key: Key, pod: Option<Pod>) -> Result<(), ReceiverDropped> {
        let key = Key::new(key.namespace, key.name + UNLABELLED);
        self.changes.send(ClusterChange::Pod(key, pod)).await.map_err(|_| ReceiverDropped)
    }
}
