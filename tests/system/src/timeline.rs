//! The changes of one workload, from watches of the API server.
//!
//! Each entry carries the time at which its watch event arrived here. That is some milliseconds
//! after the write, so measured times are upper bounds.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use autoscaler::api::{ServerlessService, SksMode};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::cluster::namespace::{TestNamespace, is_ready};

/// The reasons of the events with which the zero-scaler explains a change of size.
const SCALING_REASONS: [&str; 4] = ["ScaledToZero", "ScaledFromZero", "ScaledForPanic", "Scaled"];

/// A change of a workload.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `spec.replicas` changed.
    Scaled {
        /// The new value.
        replicas: i32,
        /// The field manager that wrote it. `None` when the size went through 0: the API server
        /// keeps no owner then.
        by: Option<String>,
    },
    PodCreated(String),
    /// A pod was assigned to a node.
    PodScheduled(String),
    /// A pod has an IP address: its sandbox runs.
    PodAddressed(String),
    /// All containers of a pod run.
    PodStarted(String),
    PodReady(String),
    /// A pod is being deleted.
    PodTerminating(String),
    /// The zero-scaler explained a change of size by an event.
    EventReported {
        /// One of the zero-scaler's scaling reasons.
        reason: String,
        /// The event's message.
        note: String,
    },
    /// The Service routes requests to activators now, or to pods.
    RouteChanged {
        /// `Proxy`: to activators; `Serve`: to pods.
        mode: SksMode,
        /// Number of activators in the path.
        activators: u32,
    },
}

/// A change and when it was seen.
#[derive(Clone, Debug)]
pub struct TimelineEntry {
    /// Unix milliseconds.
    pub at_ms: f64,
    pub change: Change,
}

/// Follows one workload until it is dropped.
pub struct Timeline {
    entries: mpsc::UnboundedReceiver<TimelineEntry>,
    _watches: JoinSet<()>,
}

// === impl Timeline ===

impl Timeline {
    /// Follows the Deployment, the pods (by the label `app`) and the ServerlessService of one name.
    pub fn follow(namespace: &TestNamespace, name: &str) -> Self {
        // Unbounded: a test's workload has few pods, and a lost entry would falsify the test.
        let (sender, entries) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        watches.spawn(follow_deployment(namespace.clone(), name.to_owned(), sender.clone()));
        watches.spawn(follow_pods(namespace.clone(), name.to_owned(), sender.clone()));
        watches.spawn(follow_events(namespace.clone(), name.to_owned(), sender.clone()));
        watches.spawn(follow_service(namespace.clone(), name.to_owned(), sender));
        Self { entries, _watches: watches }
    }

    /// The next entry.
    ///
    /// # Errors
    /// When all watches have ended.
    pub async fn next(&mut self) -> Result<TimelineEntry> {
        self.entries.recv().await.ok_or_else(|| anyhow::anyhow!("the watches ended"))
    }

    /// The entries that have arrived since the last call.
    pub fn drain(&mut self) -> Vec<TimelineEntry> {
        std::iter::from_fn(|| self.entries.try_recv().ok()).collect()
    }
}

/// Unix time in milliseconds, as in the client pod's results.
pub fn now_ms() -> f64 {
    component_base::clock::since_epoch().as_secs_f64() * 1000.0
}

type Sender = mpsc::UnboundedSender<TimelineEntry>;

fn record(sender: &Sender, change: Change) {
    // Fails only when the timeline was dropped; the watch is then about to end, too.
    let _ = sender.send(TimelineEntry { at_ms: now_ms(), change });
}

async fn follow_deployment(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects =
        watcher(namespace.api::<Deployment>(), config).default_backoff().applied_objects().boxed();
    let mut last = None;
    while let Some(object) = objects.next().await {
        let Ok(deployment) = object else { continue };
        let replicas = deployment.spec.replicas.unwrap_or(1);
        if last.replace(replicas).is_some_and(|before| before != replicas) {
            record(&sender, Change::Scaled { replicas, by: replicas_writer(deployment.managed_fields()) });
        }
    }
}

async fn follow_pods(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().labels(&format!("app={name}"));
    let mut objects = watcher(namespace.api::<Pod>(), config).default_backoff().applied_objects().boxed();
    let mut recorded: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    while let Some(object) = objects.next().await {
        let Ok(pod) = object else { continue };
        let recorded = recorded.entry(pod.name_any()).or_default();
        for (stage, reached, change) in stages(&pod) {
            if reached && recorded.insert(stage) {
                record(&sender, change(pod.name_any()));
            }
        }
    }
}

async fn follow_service(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects =
        watcher(namespace.api::<ServerlessService>(), config).default_backoff().applied_objects().boxed();
    let mut last = None;
    while let Some(object) = objects.next().await {
        let Ok(service) = object else { continue };
        let Some((mode, activators)) = service.status.and_then(|s| Some((s.mode?, s.activators))) else {
            continue;
        };
        if last.replace(mode) != Some(mode) {
            record(&sender, Change::RouteChanged { mode, activators });
        }
    }
}

async fn follow_events(namespace: TestNamespace, name: String, sender: Sender) {
    let config =
        watcher::Config::default().fields(&format!("regarding.kind=PodAutoscaler,regarding.name={name}"));
    let mut objects = watcher(namespace.api::<Event>(), config).default_backoff().applied_objects().boxed();
    while let Some(object) = objects.next().await {
        let Ok(event) = object else { continue };
        let reason = event.reason.unwrap_or_default();
        if SCALING_REASONS.contains(&reason.as_str()) {
            record(&sender, Change::EventReported { reason, note: event.note.unwrap_or_default() });
        }
    }
}

/// A stage of a pod's life: its name, whether the pod has reached it, and the change to record.
type Stage = (&'static str, bool, fn(String) -> Change);
fn stages(pod: &Pod) -> [Stage; 6] {
    let status = pod.status.as_ref();
    let scheduled = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let addressed = status.is_some_and(|s| s.pod_ip.is_some());
    let running = status.is_some_and(|s| {
        let containers =
            s.container_statuses.iter().flatten().chain(s.init_container_statuses.iter().flatten());
        let mut states =
            containers.map(|c| c.state.as_ref().is_some_and(|state| state.running.is_some())).peekable();
        states.peek().is_some() && states.all(|running| running)
    });
    [
        ("created", true, Change::PodCreated),
        ("scheduled", scheduled, Change::PodScheduled),
        ("addressed", addressed, Change::PodAddressed),
        ("started", running, Change::PodStarted),
        ("ready", is_ready(pod), Change::PodReady),
        ("terminating", pod.metadata.deletion_timestamp.is_some(), Change::PodTerminating),
    ]
}

/// The field manager that wrote `spec.replicas` last.
fn replicas_writer(fields: &[ManagedFieldsEntry]) -> Option<String> {
    let owns = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|f| f.0.pointer("/f:spec/f:replicas").is_some())
    };
    let newest = fields.iter().filter(owns).max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest.and_then(|entry| entry.manager.clone())
}
