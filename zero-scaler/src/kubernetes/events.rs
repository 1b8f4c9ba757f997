//! Kubernetes events on the objects of users.
//!
//! Input: the reconcilers and the wake path, which never block: a full queue drops the event and
//! counts it. Output: objects of events.k8s.io/v1, written by [`write`]. Each event is its own
//! object, because a series keeps only the first note.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Resource};
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::FIELD_MANAGER;
use crate::kubernetes::errors::is_being_deleted;
use crate::kubernetes::rate_limit::RateLimitedClient;
use crate::kubernetes::reasons::Reason;

/// Upper bound of the queued events.
const QUEUE_LENGTH: usize = 1024;
/// Delay of each event, so that the event of a wake does not compete with the creation of its pod.
const WRITE_DELAY: Duration = Duration::from_millis(100);
/// The API's limit of a name.
const MAX_NAME_LENGTH: usize = 253;
/// The API's limit of a note, in bytes.
const MAX_NOTE_LENGTH: usize = 1024;

/// Queues events. Clones share one queue.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<QueuedEvent>,
    dropped: IntCounter,
}

/// An event that is not written yet.
#[derive(Clone, Debug)]
pub struct QueuedEvent {
    at: Instant,
    /// The same moment, in microseconds since the epoch.
    time: u128,
    object: ObjectReference,
    warning: bool,
    pub(crate) reason: Reason,
    note: String,
}

// === impl Events ===

impl Events {
    /// The sender, and the queue to be written by [`write`].
    pub fn new(dropped: IntCounter) -> (Self, mpsc::Receiver<QueuedEvent>) {
        let (queue, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self { queue, dropped }, receiver)
    }

    /// Queues an event of type Normal.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, object: &K, reason: Reason, note: String) {
        self.enqueue(QueuedEvent::now(object, false, reason, note));
    }

    /// Queues an event of type Warning.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, object: &K, reason: Reason, note: String) {
        self.enqueue(QueuedEvent::now(object, true, reason, note));
    }

    fn enqueue(&self, queued: QueuedEvent) {
        let object = queued.object.name.as_deref().unwrap_or_default();
        let namespace = queued.object.namespace.as_deref().unwrap_or_default();
        tracing::info!(
            namespace,
            object,
            reason = queued.reason.as_str(),
            note = queued.note,
            "event queued"
        );
        if self.queue.try_send(queued).is_err() {
            self.dropped.inc();
        }
    }
}

// === impl QueuedEvent ===

impl QueuedEvent {
    fn now<K: Resource<DynamicType = ()>>(object: &K, warning: bool, reason: Reason, note: String) -> Self {
        let time = component_base::clock::since_epoch().as_micros();
        Self { at: Instant::now(), time, object: object.object_ref(&()), warning, reason, note }
    }
}

/// Writes queued events until every sender is dropped.
pub async fn write(client: RateLimitedClient, instance: String, mut queue: mpsc::Receiver<QueuedEvent>) {
    while let Some(queued) = queue.recv().await {
        tokio::time::sleep_until(queued.at + WRITE_DELAY).await;
        let namespace = queued.object.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced((*client).clone(), &namespace);
        let event = event(queued, &instance, component_base::clock::since_epoch().as_micros());
        match api.create(&PostParams::default(), &event).await {
            Err(error) if !is_being_deleted(&error) => {
                tracing::warn!(%error, note = event.note, "write of event failed")
            }
            _ => {}
        }
    }
}

/// The API object. It is named by the time of the write, because two events may have the same time.
fn event(queued: QueuedEvent, instance: &str, written: u128) -> Event {
    let time = i64::try_from(queued.time)
        .ok()
        .and_then(|m| jiff::Timestamp::from_microsecond(m).ok())
        .unwrap_or_default();
    let mut note = queued.note;
    note.truncate(note.floor_char_boundary(MAX_NOTE_LENGTH));
    Event {
        metadata: ObjectMeta {
            name: Some(name(queued.object.name.as_deref().unwrap_or_default(), written)),
            namespace: queued.object.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(time)),
        type_: Some(if queued.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(queued.reason.as_str().to_owned()),
        action: Some(queued.reason.as_str().to_owned()),
        note: Some(note),
        regarding: Some(queued.object),
        reporting_controller: Some(format!("{}/{FIELD_MANAGER}", autoscaler::contract::GROUP)),
        reporting_instance: Some(instance.chars().take(128).collect()),
        ..Event::default()
    }
}

/// A unique name that starts with the object's name, cut to the API's limit.
fn name(object: &str, micros: u128) -> String {
    let own = format!(".{micros:x}");
    let object = object.get(..object.floor_char_boundary(MAX_NAME_LENGTH - own.len())).unwrap_or_default();
    format!("{}{own}", object.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn cuts_long_object_names() {
        let long = format!("{}-{}", "a".repeat(238), "b".repeat(14));
        let name = name(&long, 1_700_000_000_000_001);
        assert_eq!(name, format!("{}.60a24181e4001", "a".repeat(238)));
    }

    #[test]
    fn fills_required_fields_and_cuts_note() {
        let object = ConfigMap {
            metadata: ObjectMeta {
                name: Some("web".into()),
                namespace: Some("shop".into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let queued = QueuedEvent::now(&object, true, Reason::BadTarget, "ä".repeat(1000));
        let event = event(queued, "zero-scaler-0", 1_700_000_000_000_001);
        assert_eq!(event.metadata.name.as_deref(), Some("web.60a24181e4001"));
        assert_eq!(event.note.map(|n| n.len()), Some(1024));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.reporting_controller.as_deref(), Some("autoscaling.rouse.dev/zero-scaler"));
        assert!(event.event_time.is_some() && event.action.is_some() && event.reporting_instance.is_some());
    }
}
