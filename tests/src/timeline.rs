//! What happens to one workload, as the API server tells it, with the instant at which it was told.
//!
//! Every entry is stamped when its watch event arrives here; that is some milliseconds after the write, so a timeline errs on
//! the slow side.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use autoscaler::api::{Mode, ServerlessService};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::namespace::{TestNamespace, is_ready};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// `spec.replicas` became this, written by this field manager.
    Scaled {
        /// The new size.
        replicas: i32,
        /// Who wrote it. `None` when the API server does not say: it keeps no owner of a size that went through 0.
        by: Option<String>,
    },
    /// A pod was created.
    Created(String),
    /// A pod was given a node.
    Scheduled(String),
    /// A pod has an address: its sandbox runs.
    Addressed(String),
    /// All containers of a pod run.
    Started(String),
    /// A pod is ready.
    Ready(String),
    /// A pod is being deleted.
    Terminating(String),
    /// The zero-scaler says why it changed the size.
    Explained {
        /// `ScaledToZero`, `Woken`, `PanicOverride` or `Scaled`.
        reason: String,
        /// In words.
        note: String,
    },
    /// Requests take another way.
    Switched {
        /// To activators or to pods.
        mode: Mode,
        /// Activators in the path.
        activators: u32,
    },
}

/// A happening and when it was seen.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Unix milliseconds.
    pub at_ms: f64,
    /// What.
    pub what: Happening,
}

/// Follows one workload until it is dropped.
pub struct Timeline {
    entries: mpsc::UnboundedReceiver<Entry>,
    _watches: JoinSet<()>,
}

// === impl Timeline ===

impl Timeline {
    /// Follows the Deployment, the pods (label `app`) and the ServerlessService of that name.
    pub fn follow(namespace: &TestNamespace, name: &str) -> Self {
        // Unbounded: a test's workload has few pods, and losing an entry would be worse.
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
    pub async fn next(&mut self) -> Result<Entry> {
        self.entries.recv().await.ok_or_else(|| anyhow::anyhow!("the watches ended"))
    }

    /// The entries that have come so far.
    pub fn drain(&mut self) -> Vec<Entry> {
        std::iter::from_fn(|| self.entries.try_recv().ok()).collect()
    }
}

/// Wall time as the client pod stamps its requests.
pub fn now_ms() -> f64 {
    runtime::clock::since_epoch().as_secs_f64() * 1000.0
}

type Sender = mpsc::UnboundedSender<Entry>;

fn tell(sender: &Sender, what: Happening) {
    // Nobody listens any more when the timeline was dropped; the watch is about to end then, too.
    let _ = sender.send(Entry { at_ms: now_ms(), what });
}

async fn follow_deployment(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects =
        watcher(namespace.api::<Deployment>(), config).default_backoff().applied_objects().boxed();
    let mut known = None;
    while let Some(object) = objects.next().await {
        let Ok(deployment) = object else { continue };
        let replicas = deployment.spec.replicas.unwrap_or(1);
        if known.replace(replicas).is_some_and(|before| before != replicas) {
            tell(&sender, Happening::Scaled { replicas, by: replicas_writer(deployment.managed_fields()) });
        }
    }
}

async fn follow_pods(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().labels(&format!("app={name}"));
    let mut objects = watcher(namespace.api::<Pod>(), config).default_backoff().applied_objects().boxed();
    let mut told: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    while let Some(object) = objects.next().await {
        let Ok(pod) = object else { continue };
        let told = told.entry(pod.name_any()).or_default();
        for (stage, reached, what) in stages(&pod) {
            if reached && told.insert(stage) {
                tell(&sender, what(pod.name_any()));
            }
        }
    }
}

async fn follow_service(namespace: TestNamespace, name: String, sender: Sender) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects =
        watcher(namespace.api::<ServerlessService>(), config).default_backoff().applied_objects().boxed();
    let mut known = None;
    while let Some(object) = objects.next().await {
        let Ok(service) = object else { continue };
        let Some((mode, activators)) = service.status.and_then(|s| Some((s.mode?, s.activators))) else {
            continue;
        };
        if known.replace(mode) != Some(mode) {
            tell(&sender, Happening::Switched { mode, activators });
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
        if ["ScaledToZero", "Woken", "PanicOverride", "Scaled"].contains(&reason.as_str()) {
            tell(&sender, Happening::Explained { reason, note: event.note.unwrap_or_default() });
        }
    }
}

/// Name of a stage, whether it is reached, and what to say then.
type Stage = (&'static str, bool, fn(String) -> Happening);

/// The stages of a pod's life, whether this pod has reached them, and what to say then.
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
        ("created", true, Happening::Created),
        ("scheduled", scheduled, Happening::Scheduled),
        ("addressed", addressed, Happening::Addressed),
        ("started", running, Happening::Started),
        ("ready", is_ready(pod), Happening::Ready),
        ("terminating", pod.metadata.deletion_timestamp.is_some(), Happening::Terminating),
    ]
}

/// The field manager that owns `spec.replicas`, by a write to the scale subresource.
fn replicas_writer(fields: &[ManagedFieldsEntry]) -> Option<String> {
    let owns = |entry: &&ManagedFieldsEntry| {
        entry.fields_v1.as_ref().is_some_and(|f| f.0.pointer("/f:spec/f:replicas").is_some())
    };
    let newest = fields.iter().filter(owns).max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    newest.and_then(|entry| entry.manager.clone())
}
