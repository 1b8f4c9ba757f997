//! Events for people: what changed on an object, and why.
//!
//! Input: the reconcilers and the wake path, which never wait: a full queue drops the event and counts it. Output: objects of
//! events.k8s.io/v1, a moment later. Each is its own object, because the reason of a change stands in its note, and a
//! series keeps only the first note.

use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client, Resource};
use prometheus::IntCounter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::FIELD_MANAGER;
use crate::kubernetes::errors::is_being_deleted;
use crate::kubernetes::reasons::Reason;

/// Events that may wait for the API server.
const QUEUE: usize = 1024;
/// After what it tells of an event is written. Nobody reads that fast, and the API server has better things to do then: the
/// event of a wake would compete with the making of its pod.
const AFTERWARDS: Duration = Duration::from_millis(100);
/// The API's own limit for a name.
const LONGEST_NAME: usize = 253;
/// The API's own limit for a note, in bytes.
const LONGEST_NOTE: usize = 1024;

/// Where events are handed in.
#[derive(Clone, Debug)]
pub struct Events {
    queue: mpsc::Sender<QueuedEvent>,
    dropped: IntCounter,
}

/// One event.
#[derive(Clone, Debug)]
pub struct QueuedEvent {
    at: Instant,
    /// The same moment, in microseconds since the epoch.
    time: u128,
    about: ObjectReference,
    warning: bool,
    pub(crate) reason: Reason,
    note: String,
}

// === impl Events ===

impl Events {
    /// The sender, and the queue to be written by [`write`].
    pub fn new(dropped: IntCounter) -> (Self, mpsc::Receiver<QueuedEvent>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Self { queue, dropped }, receiver)
    }

    /// Something went as it should.
    pub fn normal<K: Resource<DynamicType = ()>>(&self, about: &K, reason: Reason, note: String) {
        self.say(QueuedEvent::now(about, false, reason, note));
    }

    /// Something needs a person.
    pub fn warning<K: Resource<DynamicType = ()>>(&self, about: &K, reason: Reason, note: String) {
        self.say(QueuedEvent::now(about, true, reason, note));
    }

    fn say(&self, said: QueuedEvent) {
        let object = said.about.name.as_deref().unwrap_or_default();
        let namespace = said.about.namespace.as_deref().unwrap_or_default();
        tracing::info!(namespace, object, reason = said.reason.as_str(), note = said.note, "event");
        if self.queue.try_send(said).is_err() {
            self.dropped.inc();
        }
    }
}

// === impl Said ===

impl QueuedEvent {
    fn now<K: Resource<DynamicType = ()>>(about: &K, warning: bool, reason: Reason, note: String) -> Self {
        let time = runtime::clock::since_epoch().as_micros();
        Self { at: Instant::now(), time, about: about.object_ref(&()), warning, reason, note }
    }
}

/// Writes events until every sender is gone.
pub async fn write(client: Client, instance: String, mut queue: mpsc::Receiver<QueuedEvent>) {
    while let Some(said) = queue.recv().await {
        tokio::time::sleep_until(said.at + AFTERWARDS).await;
        let namespace = said.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let event = event(said, &instance, runtime::clock::since_epoch().as_micros());
        match api.create(&PostParams::default(), &event).await {
            Err(error) if !is_being_deleted(&error) => {
                tracing::warn!(%error, note = event.note, "event not written")
            }
            _ => {}
        }
    }
}

/// An event, named by the moment of its writing: two may tell of the same one.
fn event(said: QueuedEvent, instance: &str, written: u128) -> Event {
    let time = i64::try_from(said.time)
        .ok()
        .and_then(|m| jiff::Timestamp::from_microsecond(m).ok())
        .unwrap_or_default();
    let mut note = said.note;
    note.truncate(note.floor_char_boundary(LONGEST_NOTE));
    Event {
        metadata: ObjectMeta {
            name: Some(name(said.about.name.as_deref().unwrap_or_default(), written)),
            namespace: said.about.namespace.clone(),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(time)),
        type_: Some(if said.warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(said.reason.as_str().to_owned()),
        action: Some(said.reason.as_str().to_owned()),
        note: Some(note),
        regarding: Some(said.about),
        reporting_controller: Some(format!("{}/{FIELD_MANAGER}", autoscaler::contract::GROUP)),
        reporting_instance: Some(instance.chars().take(128).collect()),
        ..Event::default()
    }
}

/// A name of its own, by the object's; as much of that as there is room for.
fn name(about: &str, micros: u128) -> String {
    let own = format!(".{micros:x}");
    let about = about.get(..about.floor_char_boundary(LONGEST_NAME - own.len())).unwrap_or_default();
    format!("{}{own}", about.trim_end_matches(['.', '-']))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn the_event_of_an_object_with_a_long_name_can_be_written() {
        let long = format!("{}-{}", "a".repeat(238), "b".repeat(14));
        let name = name(&long, 1_700_000_000_000_001);
        assert_eq!(name, format!("{}.60a24181e4001", "a".repeat(238)));
    }

    #[test]
    fn an_event_has_what_the_api_demands_and_no_longer_note_than_it_takes() {
        let about = ConfigMap {
            metadata: ObjectMeta {
                name: Some("web".into()),
                namespace: Some("shop".into()),
                ..ObjectMeta::default()
            },
            ..ConfigMap::default()
        };
        let said = QueuedEvent::now(&about, true, Reason::BadTarget, "ä".repeat(1000));
        let event = event(said, "zero-scaler-0", 1_700_000_000_000_001);
        assert_eq!(event.metadata.name.as_deref(), Some("web.60a24181e4001"));
        assert_eq!(event.note.map(|n| n.len()), Some(1024));
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        assert_eq!(event.reporting_controller.as_deref(), Some("autoscaling.rouse.dev/zero-scaler"));
        assert!(event.event_time.is_some() && event.action.is_some() && event.reporting_instance.is_some());
    }
}
