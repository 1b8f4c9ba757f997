//! Changes as the Kubernetes API tells them: one watch of ServerlessServices, one of pods that have a sidecar.
//!
//! Of a pod only the labels, the address and the state are kept; what else it consists of is dropped as it is read. After a
//! broken watch everything is listed anew, and what is missing then is told as gone. What was known last can be kept in files:
//! an activator that starts anew while the API server is away then goes on with that.

mod last_known;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use autoscaler::api::{self, Mode, PortLease, ServerlessService};
use autoscaler::contract::{INJECT_LABEL, QUEUE_PROXY_ADMIN_PORT};
use autoscaler::selector::Selector;
use autoscaler::{Key, Protocol};
use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Pod as CorePod;
use kube::api::ApiResource;
use kube::core::{NotUsed, Object};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource};
use last_known::LastKnown;
use runtime::readiness::ReadinessLatch;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::{Change, Lease, Pod, StartFailure, Workload};

/// A pod without its spec.
type TrimmedPod = Object<NotUsed, PodStatus>;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<PodCondition>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct PodCondition {
    r#type: String,
    status: String,
}

/// Tells every ServerlessService; drops `synced` when the first list is told. What is known is kept in `memory`, if that is
/// given. Ends when nobody listens.
pub fn follow_workloads(
    client: Client,
    memory: Option<&Path>,
    changes: mpsc::Sender<Change>,
    synced: ReadinessLatch,
) -> impl Future<Output = ()> + Send + use<> {
    let api = Api::<ServerlessService>::all(client);
    let events = watch(api, watcher::Config::default()).default_backoff().modify(trim);
    let memory = LastKnown::new(memory, "serverlessservices");
    let read = |service: &ServerlessService| Some((api::key_of(service)?, workload(service)));
    follow(events, read, Change::Workload, memory, |_| {}, changes, synced)
}

/// Tells every pod that has a sidecar, like [`follow_workloads`].
pub fn follow_pods(
    client: Client,
    memory: Option<&Path>,
    changes: mpsc::Sender<Change>,
    synced: ReadinessLatch,
) -> impl Future<Output = ()> + Send + use<> {
    let kind = ApiResource::erase::<CorePod>(&());
    let api = Api::<TrimmedPod>::all_with(client, &kind);
    let config = watcher::Config::default().labels(&format!("{INJECT_LABEL}=true"));
    let events = watch(api, config).default_backoff().modify(trim);
    let memory = LastKnown::new(memory, "pods");
    let read = |object: &TrimmedPod| Some((pod_key(object)?, pod(object)));
    follow(events, read, Change::Pod, memory, doubt, changes, synced)
}

/// What nobody here reads, and others write at length.
fn trim<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    object.meta_mut().annotations = None;
}

/// A pod that is recalled has to answer a probe before it gets a request.
fn doubt(pod: &mut TrimmedPod) {
    if let Some(status) = &mut pod.status {
        status.conditions.clear();
    }
}

/// Turns watch events into changes.
async fn follow<K: Clone + Debug + DeserializeOwned + Serialize, T>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>>,
    read: impl Fn(&K) -> Option<(Key, T)>,
    change: impl Fn(Key, Option<T>) -> Change,
    mut memory: LastKnown<K>,
    doubt: impl Fn(&mut K),
    changes: mpsc::Sender<Change>,
    synced: ReadinessLatch,
) {
    pin_mut!(events);
    let mut synced = Some(synced);
    let mut told = Told::default();
    for mut object in memory.recall() {
        doubt(&mut object);
        for (key, value) in told.apply(Event::Apply(object), &read) {
            if changes.send(change(key, value)).await.is_err() {
                return;
            }
        }
    }
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = memory.due() => {
                memory.write().await;
                continue;
            }
        };
        let event = match event {
            Some(Ok(event)) => event,
            Some(Err(error)) => {
                tracing::warn!(%error, "watch failed; it is tried again");
                continue;
            }
            None => break,
        };
        memory.note(&event, |object| Some(read(object)?.0));
        let listed = matches!(event, Event::InitDone);
        for (key, value) in told.apply(event, &read) {
            if changes.send(change(key, value)).await.is_err() {
                return;
            }
        }
        if listed {
            synced = None;
        }
    }
    drop(synced);
}

/// The keys told and not told as gone, so that a fresh list shows what went away unseen.
#[derive(Debug, Default)]
struct Told {
    known: BTreeSet<Key>,
    listing: BTreeSet<Key>,
}

impl Told {
    fn apply<K, T>(
        &mut self,
        event: Event<K>,
        read: impl Fn(&K) -> Option<(Key, T)>,
    ) -> Vec<(Key, Option<T>)> {
        let (object, gone) = match event {
            Event::Init => {
                self.listing.clear();
                return Vec::new();
            }
            Event::InitDone => {
                let listing = std::mem::take(&mut self.listing);
                let known = std::mem::replace(&mut self.known, listing);
                return known.difference(&self.known).map(|key| (key.clone(), None)).collect();
            }
            Event::InitApply(object) => {
                self.listing.extend(read(&object).map(|(key, _)| key));
                (object, false)
            }
            Event::Apply(object) => (object, false),
            Event::Delete(object) => (object, true),
        };
        let Some((key, value)) = read(&object) else { return Vec::new() };
        if gone {
            self.known.remove(&key);
            return vec![(key, None)];
        }
        self.known.insert(key.clone());
        vec![(key, Some(value))]
    }
}

fn workload(service: &ServerlessService) -> Workload {
    let spec = &service.spec;
    let selector = Selector::parse(&spec.selector)
        .inspect_err(|error| tracing::warn!(service = ?service.metadata.name, %error, "no pod is selected"))
        .ok()
        .filter(|selector| !selector.requirements().is_empty());
    let status = service.status.as_ref();
    let leases = status.map(|status| status.ports.as_slice()).unwrap_or_default();
    Workload {
        selector,
        container_concurrency: spec.container_concurrency,
        activators: spec.num_activators,
        paused: spec.paused,
        wake_timeout: spec.wake_timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        queue_depth: spec.wake_queue_depth.map(|depth| usize::try_from(depth).unwrap_or(usize::MAX)),
        start_failure: status
            .and_then(|status| status.start_failure.as_ref())
            .map(|failure| StartFailure { cause: failure.cause, given_up: failure.given_up }),
        wake_target: spec.wake_target.clone(),
        serving: status.and_then(|status| status.mode) == Some(Mode::Serve),
        ports: leases.iter().map(lease).collect(),
    }
}

fn lease(lease: &PortLease) -> Lease {
    let pod_port = match lease.protocol {
        Protocol::Http => lease.pod_port,
        // There the sidecar can tell our connections from those of callers.
        Protocol::Tcp => QUEUE_PROXY_ADMIN_PORT,
    };
    Lease { activator_port: lease.activator_port, pod_port, protocol: lease.protocol }
}

fn pod_key(object: &TrimmedPod) -> Option<Key> {
    Some(Key::new(object.metadata.namespace.clone()?, object.metadata.name.clone()?))
}

fn pod(object: &TrimmedPod) -> Pod {
    let status = object.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let labels: BTreeMap<_, _> = object.metadata.labels.clone().unwrap_or_default();
    Pod {
        uid: object.metadata.uid.clone().unwrap_or_default(),
        labels,
        ip: status.and_then(|status| status.pod_ip.as_deref()).and_then(|ip| ip.parse().ok()),
        scheduled: conditions.iter().any(|c| c.r#type == "PodScheduled" && c.status == "True"),
        ready: phase == "Running" && conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True"),
        ending: object.metadata.deletion_timestamp.is_some() || matches!(phase, "Succeeded" | "Failed"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str) -> TrimmedPod {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "shop", "name": name, "uid": "u", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app", "image": "app"}]},
            "status": {
                "phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True", "reason": "x"}]
            }
        }))
        .unwrap()
    }

    fn names(told: Vec<(Key, Option<Pod>)>) -> Vec<(String, bool)> {
        told.into_iter().map(|(key, pod)| (key.name, pod.is_some())).collect()
    }

    #[test]
    fn a_pod_is_read_without_its_spec() {
        let read = pod(&object("web-1"));
        assert_eq!(read.ip, Some("10.0.0.1".parse().unwrap()));
        assert!(read.ready && !read.ending);
        assert_eq!(read.labels.get("app").map(String::as_str), Some("web"));
        let mut ending = object("web-1");
        ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(pod(&ending).ending);
        let waiting: TrimmedPod = serde_json::from_value(
            json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Pending"}}),
        )
        .unwrap();
        assert_eq!(pod(&waiting).ip, None);
    }

    #[test]
    fn a_fresh_list_tells_what_went_away_unseen() {
        let read = |object: &TrimmedPod| Some((pod_key(object)?, pod(object)));
        let mut told = Told::default();
        told.apply(Event::Init, read);
        told.apply(Event::InitApply(object("a")), read);
        assert_eq!(names(told.apply(Event::InitDone, read)), []);
        assert_eq!(names(told.apply(Event::Apply(object("b")), read)), [("b".to_owned(), true)]);
        told.apply(Event::Init, read);
        told.apply(Event::InitApply(object("b")), read);
        assert_eq!(names(told.apply(Event::InitDone, read)), [("a".to_owned(), false)]);
        assert_eq!(names(told.apply(Event::Delete(object("b")), read)), [("b".to_owned(), false)]);
    }

    /// What is told from this memory and these events, and whether the list counts as known.
    async fn told(directory: &Path, events: Vec<Event<TrimmedPod>>) -> (Vec<(String, Option<bool>)>, bool) {
        let (sender, mut changes) = mpsc::channel(16);
        let readiness = runtime::readiness::Readiness::default();
        let events = futures::stream::iter(events.into_iter().map(Ok)).chain(futures::stream::pending());
        let read = |object: &TrimmedPod| Some((pod_key(object)?, pod(object)));
        let memory = LastKnown::new(Some(directory), "pods");
        let follow = follow(events, read, Change::Pod, memory, doubt, sender, readiness.latch("pods"));
        // The clock is paused: this is over once there is nothing to do any more.
        pin_mut!(follow);
        let _ = tokio::time::timeout(Duration::from_secs(3600), follow.as_mut()).await;
        let (synced, mut told) = (readiness.is_ready(), Vec::new());
        while let Ok(Change::Pod(key, pod)) = changes.try_recv() {
            told.push((key.name, pod.map(|pod| pod.ready)));
        }
        (told, synced)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_known_is_told_without_an_api_server_and_taken_back_by_a_list() {
        let directory = std::env::temp_dir().join(format!("activator-memory-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let listed =
            vec![Event::Init, Event::InitApply(object("a")), Event::InitDone, Event::Apply(object("b"))];
        let known = |name: &str, ready| (name.to_owned(), Some(ready));
        assert_eq!(told(&directory, listed).await, (vec![known("a", true), known("b", true)], true));
        assert_eq!(told(&directory, vec![]).await, (vec![known("a", false), known("b", false)], false));
        let (news, _) =
            told(&directory, vec![Event::Init, Event::InitApply(object("b")), Event::InitDone]).await;
        assert_eq!(news[2..], [known("b", true), ("a".to_owned(), None)]);
        std::fs::write(directory.join("pods.json"), "[{").unwrap();
        assert_eq!(told(&directory, vec![]).await, (vec![], false));
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_selector_that_says_nothing_selects_nothing() {
        let service = |selector: &str| -> ServerlessService {
            serde_json::from_value(json!({
                "metadata": {"namespace": "shop", "name": "web"},
                "spec": {"service": "web", "selector": selector, "mode": "Proxy", "numActivators": 1,
                    "wakeTarget": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
                "status": {"mode": "Serve", "ports":
                    [{"name": "http", "servicePort": 80, "activatorPort": 20001, "podPort": 8012},
                     {"name": "db", "servicePort": 81, "activatorPort": 20002, "podPort": 8012, "protocol": "tcp"}]}
            }))
            .unwrap()
        };
        assert_eq!(workload(&service("")).selector, None);
        assert_eq!(workload(&service("a in")).selector, None);
        let read = workload(&service("app=web"));
        assert!(read.selector.is_some() && read.serving);
        assert_eq!(read.wake_target.map(|target| target.name).as_deref(), Some("web"));
        let http = Lease { activator_port: 20001, pod_port: 8012, protocol: Protocol::Http };
        let tcp = Lease { activator_port: 20002, pod_port: 8022, protocol: Protocol::Tcp };
        assert_eq!(read.ports, [http, tcp]);
    }
}
