//! ReadyPods: an index of the pods of workloads, and which of them are ready.
//!
//! Two kinds of watches fill it, and divide all pods between them: one of the pods with the inject
//! label in the whole cluster, and one of the other pods in each namespace that has a workload
//! without sidecar. Each pod is reduced to the fields used here. The scraper and the multi-scaler
//! query it each second for each workload, so pods are indexed by label instead of searched. Until
//! the first list of each watch has come, queries return `None`, which is not the same as no pods.
//!
//! A pod that can no longer be decoded stays as it was last decoded. One that never could counts as
//! ready without an address: it may serve requests that no scrape counts, so its workload is
//! neither idle nor without pods.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::INJECT_LABEL;
use autoscaler::contract::selector::Selector;
use autoscaler::settings::SidecarMode;
use component_base::kubernetes::{
    DecodeErrors, Decoded, NamespaceEvent, NamespaceWatches, logged, watch_objects,
};
use component_base::readiness::ReadinessLatch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::RwLock;

use crate::watches::deletion_cost::DeletionCost;
use crate::watches::pod::Pod;
use crate::watches::pod_index::PodIndex;

/// The pods of workloads. Clones share one index.
#[derive(Clone, Debug, Default)]
pub struct ReadyPods {
    index: Arc<RwLock<Index>>,
}

#[derive(Debug, Default)]
struct Index {
    /// All pods with the inject label.
    labelled: ListedPods,
    /// The other pods of each namespace that has a workload without sidecar.
    unlabelled: HashMap<String, ListedPods>,
}

/// The pods of one watch.
#[derive(Debug, Default)]
struct ListedPods {
    synced: bool,
    pods: Namespaces,
    /// A list in progress, which replaces all pods at its end.
    listing: Namespaces,
}

/// Pods by namespace.
#[derive(Debug, Default)]
struct Namespaces(HashMap<String, PodIndex>);

// === impl ReadyPods ===

impl ReadyPods {
    /// Indexes the pods with the inject label; opens `latch` after the first list. Ends only when
    /// the watch does.
    pub async fn watch(self, client: Client, errors: DecodeErrors, latch: ReadinessLatch) {
        let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
        let api = Api::<Decoded<KubernetesPod>>::all(client);
        let events = watch_objects(api, config, errors.of(&KubernetesPod::kind(&())));
        let events = logged(events, "pods".to_owned());
        pin_mut!(events);
        let mut latch = Some(latch);
        while let Some(event) = events.next().await {
            let listed = matches!(event, Event::InitDone);
            self.apply(event);
            if listed {
                drop(latch.take());
            }
        }
    }

    /// Selects the pods of [`Self::watch_unlabelled`].
    pub fn unlabelled() -> watcher::Config {
        watcher::Config::default().labels(&format!("{INJECT_LABEL}!=true"))
    }

    /// Indexes the pods without the inject label of some namespaces. Ends with the sender of the
    /// namespaces.
    pub async fn watch_unlabelled(self, mut watches: NamespaceWatches<KubernetesPod>) {
        while let Some(event) = watches.next().await {
            match event {
                NamespaceEvent::Objects(namespace, event) => self.apply_unlabelled(namespace, event),
                NamespaceEvent::Left(namespace) => {
                    self.index.write().unlabelled.remove(&namespace);
                }
            }
        }
    }

    /// Applies one event of the watch of pods with the inject label.
    pub fn apply(&self, event: Event<Decoded<KubernetesPod>>) {
        self.index.write().labelled.apply(event);
    }

    /// The pod of this name with the inject label.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.index.read().labelled.pods.get(namespace, name)
    }

    /// Applies one event of the watch of a namespace's other pods.
    pub fn apply_unlabelled(&self, namespace: String, event: Event<Decoded<KubernetesPod>>) {
        self.index.write().unlabelled.entry(namespace).or_default().apply(event);
    }

    /// The selected pods of a namespace; `None` until they are listed. Of a workload with sidecars,
    /// those with the inject label.
    pub fn select(
        &self,
        namespace: &str,
        selector: &Selector,
        sidecar: SidecarMode,
    ) -> Option<Vec<Arc<Pod>>> {
        Some(self.index.read().select(namespace, selector, sidecar)?.cloned().collect())
    }

    /// The number of selected pods that are ready; `None` until they are listed.
    pub fn count_ready(&self, namespace: &str, selector: &Selector, sidecar: SidecarMode) -> Option<u32> {
        let index = self.index.read();
        let ready = index.select(namespace, selector, sidecar)?.filter(|pod| pod.ready).count();
        Some(u32::try_from(ready).unwrap_or(u32::MAX))
    }

    /// All pods with a deletion cost of ours, with their namespaces.
    pub fn with_our_deletion_cost(&self) -> Vec<(String, Arc<Pod>)> {
        let index = self.index.read();
        let lists = std::iter::once(&index.labelled).chain(index.unlabelled.values());
        let namespaces = lists.flat_map(|list| &list.pods.0);
        let pods = namespaces.flat_map(|(namespace, pods)| pods.iter().map(move |pod| (namespace, pod)));
        let ours = pods.filter(|(_, pod)| pod.deletion_cost == DeletionCost::Ours);
        ours.map(|(namespace, pod)| (namespace.clone(), pod.clone())).collect()
    }

    /// The template of the youngest selected pod that is ready.
    pub fn youngest_template(
        &self,
        namespace: &str,
        selector: &Selector,
        sidecar: SidecarMode,
    ) -> Option<u64> {
        let index = self.index.read();
        let pods = index.select(namespace, selector, sidecar)?.filter(|pod| pod.ready);
        pods.max_by_key(|pod| (pod.started, &pod.name))?.template
    }

    /// When a selected pod of this template was last killed for its memory, in Unix time. It need
    /// not be ready: a killed container has to start anew.
    pub fn last_memory_kill(
        &self,
        namespace: &str,
        selector: &Selector,
        sidecar: SidecarMode,
        template: u64,
    ) -> Option<Duration> {
        let index = self.index.read();
        let pods = index.select(namespace, selector, sidecar)?.filter(|pod| pod.template == Some(template));
        pods.filter_map(|pod| pod.memory_kill).max()
    }
}

// === impl Index ===

impl Index {
    fn select(
        &self,
        namespace: &str,
        selector: &Selector,
        sidecar: SidecarMode,
    ) -> Option<impl Iterator<Item = &Arc<Pod>>> {
        let labelled = Some(&self.labelled).filter(|pods| pods.synced)?;
        let unlabelled = if sidecar.is_required() {
            None
        } else {
            // Pods without sidecar may have the label all the same.
            Some(self.unlabelled.get(namespace).filter(|pods| pods.synced)?)
        };
        let others = unlabelled.into_iter().flat_map(|others| others.pods.select(namespace, selector));
        Some(labelled.pods.select(namespace, selector).chain(others))
    }
}

// === impl ListedPods ===

impl ListedPods {
    fn apply(&mut self, event: Event<Decoded<KubernetesPod>>) {
        match event {
            Event::Init => self.listing = Namespaces::default(),
            Event::InitApply(pod) => self.listing.insert(&pod, self.pods.newest(&pod)),
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.listing);
                self.synced = true;
            }
            Event::Apply(pod) => self.pods.insert(&pod, self.pods.newest(&pod)),
            Event::Delete(pod) => self.pods.remove(&pod),
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.0.get(namespace)?.get(name)
    }

    fn select(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<Pod>> {
        self.0.get(namespace).into_iter().flat_map(|pods| pods.select(selector))
    }

    fn newest(&self, pod: &Decoded<KubernetesPod>) -> Arc<Pod> {
        let none = PodIndex::default();
        self.0.get(&pod.namespace().unwrap_or_default()).unwrap_or(&none).newest(pod)
    }

    fn insert(&mut self, of: &Decoded<KubernetesPod>, pod: Arc<Pod>) {
        self.0.entry(of.namespace().unwrap_or_default()).or_default().insert(pod);
    }

    fn remove(&mut self, pod: &Decoded<KubernetesPod>) {
        let name = pod.namespace().unwrap_or_default();
        if let Some(namespace) = self.0.get_mut(&name) {
            namespace.remove(&pod.name_any());
            if namespace.is_empty() {
                self.0.remove(&name);
            }
        }
    }
}

#[cfg(test)]
impl ReadyPods {
    /// Adds or replaces a ready pod of the app `web` in the namespace `shop`. `killed_at`, in Unix
    /// time, is when it was killed for its memory.
    pub(crate) fn put_sample(&self, name: &str, image: &str, killed_at: Option<u64>) {
        use serde_json::json;

        let killed = killed_at.map(|at| {
            let at = jiff::Timestamp::from_second(i64::try_from(at).unwrap()).unwrap();
            json!({"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": at.to_string()}})
        });
        let container = json!({
            "name": "app", "image": image, "imageID": image, "ready": true, "restartCount": 1, "lastState": killed,
        });
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": image}]},
            "status": {
                "phase": "Running", "podIP": "127.0.0.1", "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [container],
            },
        });
        self.apply(Event::Apply(serde_json::from_value(pod).unwrap()));
    }

    /// Removes a pod of [`put_sample`](Self::put_sample).
    pub(crate) fn remove_sample(&self, name: &str) {
        let pod = serde_json::json!({"metadata": {"name": name, "namespace": "shop"}});
        self.apply(Event::Delete(serde_json::from_value(pod).unwrap()));
    }
}

#[cfg(test)]
mod tests;
