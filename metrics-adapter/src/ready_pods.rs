//! ReadyPods: the pods that have our sidecar, and which of them are ready.
//!
//! Fed by a watch of all pods with the inject label, cut down to what is read here. The scrapers ask it whom to read, the
//! multi-scaler how many are ready. Until the first list has come it knows nothing, which is not the same as no pods.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use autoscaler::contract::INJECT_LABEL;
use autoscaler::selector::Selector;
use chassis::readiness::Latch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};

/// What is kept of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Where to read it; `None` while it has no address.
    pub ip: Option<IpAddr>,
    /// Running, Ready and not being deleted.
    pub ready: bool,
    /// Whether it has neither succeeded nor failed.
    pub exists: bool,
    /// When it started, in Unix time.
    pub started: Option<Duration>,
    labels: std::collections::BTreeMap<String, String>,
}

/// All pods with the sidecar. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ReadyPods {
    index: Arc<RwLock<Index>>,
}

#[derive(Debug, Default)]
struct Index {
    synced: bool,
    namespaces: Namespaces,
    /// Filled during a fresh list, which replaces everything at its end.
    listing: Namespaces,
}

/// Namespace to pod name to pod.
type Namespaces = HashMap<String, HashMap<String, Arc<Pod>>>;

// === impl ReadyPods ===

impl ReadyPods {
    /// Follows the cluster's pods; ends only when the watch does.
    pub async fn follow(self, client: Client, latch: Latch) {
        let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
        let events = watcher(Api::<KubernetesPod>::all(client), config).default_backoff();
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
                Err(error) => tracing::warn!(%error, "watch of pods failed; it is tried again"),
            }
        }
    }

    /// Takes in one event of the watch.
    pub fn apply(&self, event: Event<KubernetesPod>) {
        self.index.write().unwrap_or_else(PoisonError::into_inner).apply(event);
    }

    /// The pods of a namespace that a selector chooses; `None` until the first list has come.
    pub fn select(&self, namespace: &str, selector: &Selector) -> Option<Vec<Arc<Pod>>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        if !index.synced {
            return None;
        }
        let pods = index.namespaces.get(namespace).into_iter().flat_map(HashMap::values);
        Some(pods.filter(|pod| selector.matches(&pod.labels)).cloned().collect())
    }

    /// How many of them are ready.
    pub fn count_ready(&self, namespace: &str, selector: &Selector) -> Option<u32> {
        let ready = self.select(namespace, selector)?.iter().filter(|pod| pod.ready).count();
        Some(u32::try_from(ready).unwrap_or(u32::MAX))
    }
}

// === impl Index ===

impl Index {
    fn apply(&mut self, event: Event<KubernetesPod>) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(pod) => insert(&mut self.listing, &pod),
            Event::InitDone => {
                self.namespaces = std::mem::take(&mut self.listing);
                self.synced = true;
            }
            Event::Apply(pod) => insert(&mut self.namespaces, &pod),
            Event::Delete(pod) => {
                let namespace = pod.namespace().unwrap_or_default();
                if let Some(pods) = self.namespaces.get_mut(&namespace) {
                    pods.remove(&pod.name_any());
                    if pods.is_empty() {
                        self.namespaces.remove(&namespace);
                    }
                }
            }
        }
    }
}

fn insert(namespaces: &mut Namespaces, pod: &KubernetesPod) {
    let pods = namespaces.entry(pod.namespace().unwrap_or_default()).or_default();
    pods.insert(pod.name_any(), Arc::new(Pod::from(pod)));
}

// === impl Pod ===

impl From<&KubernetesPod> for Pod {
    fn from(pod: &KubernetesPod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
        let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        let condition = conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True");
        Self {
            name: pod.name_any(),
            ip: status.and_then(|s| s.pod_ip.as_deref()?.parse().ok()),
            ready: phase == "Running" && condition && pod.metadata.deletion_timestamp.is_none(),
            exists: phase != "Succeeded" && phase != "Failed",
            started: status
                .and_then(|s| s.start_time.as_ref())
                .and_then(|time| u64::try_from(time.0.as_second()).ok())
                .map(Duration::from_secs),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, phase: &str, ready: &str, deleted: bool) -> KubernetesPod {
        let mut metadata = serde_json::json!({"name": name, "namespace": "shop", "labels": {"app": "web"}});
        if deleted {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        serde_json::from_value(serde_json::json!({
            "metadata": metadata,
            "status": {
                "phase": phase,
                "podIP": "10.0.0.1",
                "startTime": "2026-01-01T00:00:00Z",
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn counts_running_ready_pods_that_stay() {
        let pods = ReadyPods::default();
        let selector = Selector::parse("app=web").unwrap();
        assert_eq!(pods.count_ready("shop", &selector), None, "nothing is known before the first list");
        pods.apply(Event::Init);
        for (name, phase, ready, deleted) in [
            ("a", "Running", "True", false),
            ("b", "Running", "False", false),
            ("c", "Pending", "True", false),
            ("d", "Running", "True", true),
        ] {
            pods.apply(Event::InitApply(pod(name, phase, ready, deleted)));
        }
        pods.apply(Event::InitDone);
        assert_eq!(pods.count_ready("shop", &selector), Some(1));
        assert_eq!(pods.select("shop", &selector).unwrap().len(), 4);
        assert_eq!(pods.count_ready("shop", &Selector::parse("app=api").unwrap()), Some(0));
        assert_eq!(pods.count_ready("other", &selector), Some(0));
        pods.apply(Event::Delete(pod("a", "Running", "True", false)));
        assert_eq!(pods.count_ready("shop", &selector), Some(0));
    }
}
