//! Reconciles the caBundle of one object, so that the API server trusts the serving certificate
//! when it connects to this installation's Service.
//!
//! The object is Rouse's exactly if it names that Service. Otherwise it is left unchanged, and a
//! log line, an event on the object and its metric report it. A program that writes another
//! caBundle into an object of Rouse, as KEDA's operator does whatever the APIService names, is
//! reported as well, and the caBundle is restored at intervals that grow ([`WritePace`]).

use std::fmt::Debug;
use std::time::Duration;

use component_base::kubernetes::watch_object;
use futures::{StreamExt, pin_mut};
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch as JsonPatch, PatchOperation, TestOperation};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Api, Client, Resource};
use prometheus::IntGauge;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::tls::write_pace::WritePace;
use crate::watches::observed_object::ObservedObject;

/// Field manager of the patch.
const FIELD_MANAGER: &str = "metrics-adapter";
/// Delay after a failed patch.
const RETRY: Duration = Duration::from_secs(5);

/// An object that names the server to which the API server connects.
pub trait TrustingObject:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    /// What is lost while it does not name our Service, as the end of a sentence.
    const LOSS: &'static str;
    /// What a user can do if it names another server.
    const REMEDY: &'static str;

    /// The server that it names.
    fn server(&self) -> TrustedServer<'_>;

    /// The patch that sets this CA, and verification by it. It fails if the object names another
    /// Service meanwhile.
    fn patch(&self, ca: &ByteString) -> JsonPatch;
}

/// The server that an object names, and the trust in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrustedServer<'a> {
    Service {
        namespace: &'a str,
        name: &'a str,
        /// The CAs that verify it; `None` if nothing verifies it, or the CAs of the API server do.
        ca: Option<&'a ByteString>,
    },
    /// Anything else, as a noun.
    Other(String),
}

/// State of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CaBundleState {
    /// It has our CA.
    InSync,
    /// It names our Service, with another CA or without verification.
    OutOfDate,
    /// It names our Service, and another program overwrites its CA. Holds the program's field
    /// manager.
    Overwritten(String),
    /// It names another server.
    OwnedByOther(String),
    /// It does not exist.
    Missing,
}

/// Reconciles one object.
#[derive(Clone)]
pub struct CaBundleReconciler {
    pub client: Client,
    /// Name of the object.
    pub name: &'static str,
    /// Namespace and name of our Service.
    pub service: (String, String),
    /// Records events on the object.
    pub recorder: Recorder,
    /// 1 while the object names our Service.
    pub owned: IntGauge,
}

/// Writes the caBundle of one object.
struct BundleWriter<K> {
    api: Api<K>,
    name: &'static str,
    /// The CA of the last write.
    written: Option<ByteString>,
    /// The pace of the writes of this CA.
    pace: WritePace,
}

/// Reconciles the object on each change of the object and of `ca`.
#[tracing::instrument(skip_all, fields(kind = %K::kind(&()), name = reconciler.name))]
pub async fn reconcile<K: TrustingObject>(
    reconciler: CaBundleReconciler,
    mut ca: watch::Receiver<Option<String>>,
) {
    let CaBundleReconciler { client, name, service: (namespace, service), recorder, owned } = reconciler;
    let api: Api<K> = Api::all_with(client, &());
    let events = watch_object(api.clone(), name);
    pin_mut!(events);
    let mut newest = ObservedObject::Unlisted;
    let mut reported: Option<CaBundleState> = None;
    let mut writer = BundleWriter { api, name, written: None, pace: WritePace::default() };
    let mut next_write: Option<Instant> = None;
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(object) => newest = ObservedObject::from(object),
                None => return,
            },
            changed = ca.changed() => if changed.is_err() { return },
            () = component_base::clock::sleep_until(next_write) => {}
        }
        next_write = None;
        let bundle = ca.borrow_and_update().clone();
        let object: Option<&K> = match &newest {
            ObservedObject::Unlisted => continue,
            ObservedObject::Missing => None,
            ObservedObject::Present(object) => Some(object),
        };
        let Some(bundle) = bundle.map(|pem| ByteString(pem.into_bytes())) else { continue };
        let mut state = CaBundleState::of(object, &namespace, &service, &bundle);
        if let (CaBundleState::OutOfDate, Some(object)) = (&state, object) {
            next_write = writer.write(object, &bundle).await;
            if writer.pace.is_contested(Instant::now()) {
                state = CaBundleState::Overwritten(field_manager(object.meta().managed_fields.as_deref()));
            }
        }
        owned.set(i64::from(state.names_our_service()));
        if reported.as_ref() != Some(&state) {
            state.log::<K>();
            if let Some(object) = object {
                publish_event(&recorder, object, &state).await;
            }
            reported = Some(state);
        }
    }
}

/// The operations that set `fields` of a JSON object, unless its `service` is another one than
/// this.
pub(crate) fn set_unless_taken(
    parent: &[&str],
    service: &Value,
    fields: impl IntoIterator<Item = (&'static str, Value)>,
) -> JsonPatch {
    let path = |field| PointerBuf::from_tokens(parent.iter().copied().chain([field]));
    let test = PatchOperation::Test(TestOperation { path: path("service"), value: service.clone() });
    let set = |(field, value)| PatchOperation::Add(AddOperation { path: path(field), value });
    JsonPatch([test].into_iter().chain(fields.into_iter().map(set)).collect())
}

/// The field manager that wrote the caBundle last.
fn field_manager(entries: Option<&[ManagedFieldsEntry]>) -> String {
    let entries = entries.unwrap_or_default().iter();
    let writers = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|set| has_bundle(&set.0)));
    let last = writers.max_by_key(|entry| entry.time.as_ref().map(|time| time.0));
    last.and_then(|entry| entry.manager.clone()).unwrap_or_else(|| "unknown".to_owned())
}

/// Whether a set of managed fields has a caBundle. Sets are as deep as their object.
fn has_bundle(fields: &Value) -> bool {
    let fields = fields.as_object();
    fields.is_some_and(|fields| fields.contains_key("f:caBundle") || fields.values().any(has_bundle))
}

// === impl BundleWriter ===

impl<K: TrustingObject> BundleWriter<K> {
    /// Writes the CA, unless its last write is too recent. Returns when to call this again if it is
    /// not written.
    async fn write(&mut self, object: &K, ca: &ByteString) -> Option<Instant> {
        let now = Instant::now();
        if self.written.as_ref() != Some(ca) {
            self.pace = WritePace::default();
        }
        if let Some(due) = self.pace.due(now) {
            return Some(due);
        }
        let patch = Patch::Json::<()>(object.patch(ca));
        match self.api.patch(self.name, &PatchParams::apply(FIELD_MANAGER), &patch).await {
            Ok(_) => {
                tracing::info!("caBundle written");
                self.pace.record(now);
                self.written = Some(ca.clone());
                None
            }
            Err(error) => {
                tracing::error!(%error, "caBundle not written, retrying");
                Some(now + RETRY)
            }
        }
    }
}

// === impl CaBundleState ===

impl CaBundleState {
    fn of<K: TrustingObject>(object: Option<&K>, namespace: &str, service: &str, ca: &ByteString) -> Self {
        match object.map(K::server) {
            None => Self::Missing,
            Some(TrustedServer::Other(server)) => Self::OwnedByOther(server),
            Some(TrustedServer::Service { namespace: ns, name, ca: trusted })
                if ns == namespace && name == service =>
            {
                if trusted == Some(ca) {
                    Self::InSync
                } else {
                    Self::OutOfDate
                }
            }
            Some(TrustedServer::Service { namespace, name, .. }) => {
                Self::OwnedByOther(format!("Service {namespace}/{name}"))
            }
        }
    }

    fn names_our_service(&self) -> bool {
        matches!(self, Self::InSync | Self::OutOfDate | Self::Overwritten(_))
    }

    fn log<K: TrustingObject>(&self) {
        match self {
            Self::Overwritten(manager) => {
                tracing::error!(%manager, consequence = K::LOSS, "caBundle overwritten repeatedly");
            }
            Self::InSync => tracing::info!("caBundle up to date"),
            Self::OutOfDate => tracing::info!("caBundle out of date"),
            Self::OwnedByOther(owner) => {
                tracing::error!(%owner, consequence = K::LOSS, "object belongs to another server");
            }
            Self::Missing => tracing::warn!(consequence = K::LOSS, "object not found"),
        }
    }
}

async fn publish_event<K: TrustingObject>(recorder: &Recorder, object: &K, state: &CaBundleState) {
    let kind = K::kind(&());
    let (reason, fault) = match state {
        CaBundleState::OwnedByOther(owner) => (
            "OwnedByOtherServer",
            format!("the {kind} names {owner} instead of Rouse's metrics-adapter and is left unchanged"),
        ),
        CaBundleState::Overwritten(manager) => (
            "CaBundleOverwritten",
            format!(
                "field manager {manager:?} overwrites the caBundle of Rouse's metrics-adapter in the {kind}"
            ),
        ),
        CaBundleState::InSync | CaBundleState::OutOfDate | CaBundleState::Missing => return,
    };
    let event = Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some(format!("{fault}, so {}; {}", K::LOSS, K::REMEDY)),
        action: "Serving".to_owned(),
        secondary: None,
    };
    if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
        tracing::warn!(%error, "event not written");
    }
}
