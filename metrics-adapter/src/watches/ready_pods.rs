//! ReadyPods: an index of the pods that have a sidecar, and which of them are ready.
//!
//! Filled by a watch of all pods with the inject label; each pod is reduced to the fields used
//! here. The scraper and the multi-scaler query it each second for each workload, so pods are
//! indexed by label instead of searched. Until the first list has come, queries return `None`,
//! which is not the same as no pods.
//!
//! A pod that can no longer be decoded stays as it was last decoded. One that never could counts as
//! ready without an address: it may serve requests that no scrape counts, so its workload is
//! neither idle nor without pods.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::INJECT_LABEL;
use autoscaler::contract::selector::{Requirement, Selector};
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::RwLock;
use runtime::kubernetes::{DecodeErrors, Decoded, watch_objects};
use runtime::readiness::ReadinessLatch;

use crate::learning::pod_template;
use crate::learning::resources::app_containers::{AppContainer, app_containers};

/// The fields of a pod that are used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// The pod IP; `None` until it is assigned.
    pub ip: Option<IpAddr>,
    /// Whether it is running, ready and not being deleted.
    pub ready: bool,
    /// When it became ready, in Unix time; its start time if the condition does not state it.
    pub ready_since: Option<Duration>,
    /// Whether it has neither succeeded nor failed.
    pub exists: bool,
    /// Start time, in Unix time.
    pub started: Option<Duration>,
    /// Identifies what runs in it; `None` if it could not be decoded.
    pub template: Option<u64>,
    /// When it was last killed for its memory, in Unix time.
    pub memory_kill: Option<Duration>,
    /// The containers of the app that have a limit.
    pub app_containers: Box<[AppContainer]>,
    labels: std::collections::BTreeMap<String, String>,
}

/// All pods with a sidecar. Clones share one index.
#[derive(Clone, Debug, Default)]
pub struct ReadyPods {
    index: Arc<RwLock<Index>>,
}

#[derive(Debug, Default)]
struct Index {
    synced: bool,
    namespaces: Namespaces,
    /// A list in progress, which replaces all pods at its end.
    listing: Namespaces,
}

/// The pods of all namespaces.
#[derive(Debug, Default)]
struct Namespaces(HashMap<String, Namespace>);

/// The pods of one namespace.
#[derive(Debug, Default)]
struct Namespace {
    by_name: HashMap<String, Arc<Pod>>,
    /// Label to value to pods, without the inject label, which all of them have.
    by_label: HashMap<String, HashMap<String, Vec<Arc<Pod>>>>,
}

// === impl ReadyPods ===

impl ReadyPods {
    /// Fills the index; opens `latch` after the first list. Ends only when the watch does.
    pub async fn watch(self, client: Client, errors: DecodeErrors, latch: ReadinessLatch) {
        let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
        let api = Api::<Decoded<KubernetesPod>>::all(client);
        let events = watch_objects(api, config, errors.of(&KubernetesPod::kind(&())));
        pin_mut!(events);
        let mut latch = Some(latch);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let listed = matches!(event, Event::InitDone);
                    self.apply(event);
                    if listed {
                        drop(latch.take());
                    }
                }
                Err(error) => tracing::warn!(resource = "pods", %error, "watch failed, retrying"),
            }
        }
    }

    /// Applies one event of the watch.
    pub fn apply(&self, event: Event<Decoded<KubernetesPod>>) {
        self.index.write().apply(event);
    }

    /// The pod of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        self.index.read().namespaces.0.get(namespace)?.by_name.get(name).cloned()
    }

    /// The selected pods of a namespace; `None` until the first list has come.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let index = self.index.read();
        if !index.synced {
            return None;
        }
        Some(index.namespaces.select(namespace, selector).cloned().collect())
    }

    /// The number of selected pods that are ready; `None` until the first list has come.
    pub fn count_ready(&self, namespace: &str, selector: &Selector) -> Option<u32> {
        let index = self.index.read();
        if !index.synced {
            return None;
        }
        let ready = index.namespaces.select(namespace, selector).filter(|pod| pod.ready).count();
        Some(u32::try_from(ready).unwrap_or(u32::MAX))
    }

    /// The template of the youngest selected pod that is ready.
    pub fn youngest_template(&self, namespace: &str, selector: &Selector) -> Option<u64> {
        let index = self.index.read();
        let pods = index.namespaces.select(namespace, selector).filter(|pod| pod.ready);
        pods.max_by_key(|pod| (pod.started, &pod.name))?.template
    }

    /// When a selected pod of this template was last killed for its memory, in Unix time. It need not
    /// be ready: a killed container has to start anew.
    pub fn last_memory_kill(&self, namespace: &str, selector: &Selector, template: u64) -> Option<Duration> {
        let index = self.index.read();
        let pods = index.namespaces.select(namespace, selector).filter(|pod| pod.template == Some(template));
        pods.filter_map(|pod| pod.memory_kill).max()
    }
}

// === impl Index ===

impl Index {
    fn apply(&mut self, event: Event<Decoded<KubernetesPod>>) {
        match event {
            Event::Init => self.listing.0.clear(),
            Event::InitApply(pod) => {
                let newest = self.newest(&pod);
                self.listing.insert(pod.namespace(), newest);
            }
            Event::InitDone => {
                self.namespaces = std::mem::take(&mut self.listing);
                self.synced = true;
            }
            Event::Apply(pod) => {
                let newest = self.newest(&pod);
                self.namespaces.insert(pod.namespace(), newest);
            }
            Event::Delete(pod) => self.namespaces.remove(&pod),
        }
    }

    fn newest(&self, pod: &Decoded<KubernetesPod>) -> Arc<Pod> {
        match &pod.0 {
            Ok(pod) => Arc::new(Pod::from(&**pod)),
            Err(undecodable) => {
                let last = self.namespaces.get(pod).cloned();
                last.unwrap_or_else(|| Arc::new(Pod::undecodable(&undecodable.metadata)))
            }
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    fn get(&self, pod: &Decoded<KubernetesPod>) -> Option<&Arc<Pod>> {
        self.0.get(&pod.namespace().unwrap_or_default())?.by_name.get(&pod.name_any())
    }

    fn insert(&mut self, namespace: Option<String>, pod: Arc<Pod>) {
        self.0.entry(namespace.unwrap_or_default()).or_default().insert(pod);
    }

    fn remove(&mut self, pod: &Decoded<KubernetesPod>) {
        let name = pod.namespace().unwrap_or_default();
        if let Some(namespace) = self.0.get_mut(&name) {
            namespace.remove(&pod.name_any());
            if namespace.by_name.is_empty() {
                self.0.remove(&name);
            }
        }
    }

    fn select(&self, namespace: &str, selector: &Selector) -> impl Iterator<Item = &Arc<Pod>> {
        let namespace = self.0.get(namespace);
        let fewest = selector
            .requirements()
            .iter()
            .filter_map(|it| namespace?.labelled(it))
            .min_by_key(|pods| pods.len());
        // A selector without an indexed value has to search all pods.
        let all = namespace.filter(|_| fewest.is_none()).into_iter().flat_map(|all| all.by_name.values());
        // The index has evaluated the whole selector.
        let complete = fewest.is_some() && selector.requirements().len() == 1;
        fewest
            .unwrap_or_default()
            .iter()
            .chain(all)
            .filter(move |pod| complete || selector.matches(&pod.labels))
    }
}

// === impl Namespace ===

impl Namespace {
    fn insert(&mut self, pod: Arc<Pod>) {
        self.remove(&pod.name);
        for (label, value) in indexed(&pod) {
            let by_value = self.by_label.entry(label.clone()).or_default();
            by_value.entry(value.clone()).or_default().push(pod.clone());
        }
        self.by_name.insert(pod.name.clone(), pod);
    }

    fn remove(&mut self, name: &str) {
        let Some(pod) = self.by_name.remove(name) else { return };
        for (label, value) in indexed(&pod) {
            let Some(by_value) = self.by_label.get_mut(label) else { continue };
            let Some(pods) = by_value.get_mut(value) else { continue };
            pods.retain(|other| !Arc::ptr_eq(other, &pod));
            if pods.is_empty() {
                by_value.remove(value);
            }
            if by_value.is_empty() {
                self.by_label.remove(label);
            }
        }
    }

    /// The pods with a label's value; `None` if the requirement is not on exactly one indexed
    /// value.
    fn labelled(&self, requirement: &Requirement) -> Option<&[Arc<Pod>]> {
        match requirement {
            Requirement::In(label, values) if label != INJECT_LABEL => match values.as_slice() {
                [value] => {
                    let pods = self.by_label.get(label).and_then(|by_value| by_value.get(value));
                    Some(pods.map_or(&[], Vec::as_slice))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn indexed(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.labels.iter().filter(|(label, _)| *label != INJECT_LABEL)
}

// === impl Pod ===

impl Pod {
    fn undecodable(metadata: &ObjectMeta) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            ip: None,
            ready: metadata.deletion_timestamp.is_none(),
            ready_since: None,
            exists: true,
            started: None,
            template: None,
            memory_kill: None,
            app_containers: Box::default(),
            labels: metadata.labels.clone().unwrap_or_default(),
        }
    }
}

impl From<&KubernetesPod> for Pod {
    fn from(pod: &KubernetesPod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let condition = conditions.iter().find(|c| c.type_ == "Ready" && c.status == "True");
        let since = condition.and_then(|c| c.last_transition_time.as_ref());
        Self {
            name: pod.name_any(),
            ip: status.and_then(|s| s.pod_ip.as_deref()?.parse().ok()),
            ready: phase == "Running" && condition.is_some() && pod.metadata.deletion_timestamp.is_none(),
            ready_since: since.or(status.and_then(|s| s.start_time.as_ref())).and_then(unix_time),
            exists: phase != "Succeeded" && phase != "Failed",
            started: status.and_then(|s| s.start_time.as_ref()).and_then(unix_time),
            template: pod.spec.as_ref().map(pod_template::template_hash),
            memory_kill: status.and_then(pod_template::last_memory_kill),
            app_containers: pod.spec.as_ref().map(|spec| app_containers(spec, status)).unwrap_or_default(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
        }
    }
}

fn unix_time(time: &Time) -> Option<Duration> {
    u64::try_from(time.0.as_second()).ok().map(Duration::from_secs)
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
