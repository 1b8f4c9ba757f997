//! WorkloadView: one workload with its last hour, its wakes, its conditions and its last decisions.
//!
//! Each part is read by itself. One that cannot be read has the reason in its place, so that a user
//! without the right to read events still sees the rest.

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, PodAutoscalerStatus};
use autoscaler::findings::pod_start;
use autoscaler::history::HistoryReport;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::ListParams;
use serde::Serialize;
use serde_json::Value;

use crate::check::cluster_version::ClusterVersion;
use crate::check::workload::conditions::problem;
use crate::connection::Session;
use crate::error::reason;
use crate::ui::fleet::Fleet;
use crate::ui::wakes::{ShownWake, with_writes};
use crate::workloads::row::WorkloadRow;
use crate::workloads::why_report;

/// Events that are read; the API server keeps the events of an hour.
const MAX_EVENTS: u32 = 500;
const SHOWN_EVENTS: usize = 20;

/// What the page shows of one workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadView {
    row: WorkloadRow,
    /// Kind and name of the scaled object.
    target: Option<String>,
    service: Option<String>,
    min_replicas: Option<i32>,
    max_replicas: Option<i32>,
    scale_to_zero: bool,
    /// Where the Service sends requests.
    route: Option<autoscaler::api::Route>,
    learning: Option<LearningView>,
    /// What would make its pods start sooner.
    advice: Vec<&'static str>,
    conditions: Vec<ConditionView>,
    history: Part<HistoryReport>,
    wakes: Vec<ShownWake>,
    /// The report of `why`.
    why: Part<Value>,
    events: Part<Vec<EventView>>,
}

/// A part, or why it could not be read.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Part<T> {
    Value(T),
    Error(String),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LearningView {
    mode: String,
    target: Option<f64>,
    phase: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionView {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    since: String,
    /// What to change, if the condition reports a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EventView {
    at: Option<String>,
    warning: bool,
    reason: String,
    note: String,
}

// === impl WorkloadView ===

impl WorkloadView {
    /// Reads all parts; `None` if there is no such workload.
    pub(super) async fn read(fleet: &Fleet, key: &Key) -> Option<Self> {
        let object = fleet.autoscaler(key)?;
        let session = &fleet.session;
        let autoscaler = object.0.as_ref().ok();
        let (row, advice, history, why, events) = tokio::join!(
            fleet.row(key, &object),
            advice(session, key, autoscaler),
            history(session, key),
            why(session, key),
            events(session, key)
        );
        let spec = autoscaler.map(|autoscaler| &autoscaler.spec);
        let status = autoscaler.and_then(|autoscaler| autoscaler.status.as_ref());
        let wakes = match (&history, &events) {
            (Ok(history), Ok(events)) => with_writes(&history.wakes, events),
            (Ok(history), Err(_)) => with_writes(&history.wakes, &[]),
            (Err(_), _) => Vec::new(),
        };
        Some(Self {
            row,
            target: spec.map(|spec| format!("{} {}", spec.scale_target_ref.kind, spec.scale_target_ref.name)),
            service: spec.map(|spec| spec.service.clone()),
            min_replicas: spec.and_then(|spec| spec.min_replicas),
            max_replicas: spec.and_then(|spec| spec.max_replicas),
            scale_to_zero: spec.is_some_and(|spec| spec.scale_to_zero),
            route: status.and_then(|status| status.route),
            learning: status.and_then(LearningView::new),
            advice,
            conditions: autoscaler.map_or_else(Vec::new, |it| conditions(it, fleet.version)),
            history: history.into(),
            wakes,
            why: why.into(),
            events: events.map(|events| shown(&events)).into(),
        })
    }
}

/// Empty if the workload stays above zero, or its template is not a Deployment's or not readable.
async fn advice(session: &Session, key: &Key, autoscaler: Option<&PodAutoscaler>) -> Vec<&'static str> {
    let target = autoscaler.filter(|it| it.spec.scale_to_zero).map(|it| &it.spec.scale_target_ref);
    let Some(target) = target.filter(|target| target.kind == "Deployment") else { return Vec::new() };
    let api: Api<Deployment> = Api::namespaced(session.client.clone(), &key.namespace);
    let read = api.get_opt(&target.name).await.ok().flatten();
    read.and_then(|deployment| pod_start::advice(&deployment.spec.template)).into_iter().collect()
}

async fn history(session: &Session, key: &Key) -> Result<HistoryReport, String> {
    let Key { namespace, name } = key;
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/history/{name}");
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    session.client.request(request).await.map_err(|error| reason(&error))
}

async fn why(session: &Session, key: &Key) -> Result<Value, String> {
    let text = why_report::request(session, key, why_report::Format::Json).await;
    let text = text.map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// The events of the PodAutoscaler.
async fn events(session: &Session, key: &Key) -> Result<Vec<Event>, String> {
    let api: Api<Event> = Api::namespaced(session.client.clone(), &key.namespace);
    let selector = format!("regarding.kind=PodAutoscaler,regarding.name={}", key.name);
    let params = ListParams::default().fields(&selector).limit(MAX_EVENTS);
    let listed = api.list(&params).await.map_err(|error| reason(&error))?;
    let is_about = |event: &Event| {
        let about = event.regarding.as_ref();
        about.is_some_and(|about| {
            about.kind.as_deref() == Some("PodAutoscaler") && about.name.as_deref() == Some(key.name.as_str())
        })
    };
    Ok(listed.items.into_iter().filter(is_about).collect())
}

/// The newest ones first.
fn shown(events: &[Event]) -> Vec<EventView> {
    let mut shown: Vec<_> = events.iter().map(EventView::new).collect();
    shown.sort_by(|a, b| b.at.cmp(&a.at));
    shown.truncate(SHOWN_EVENTS);
    shown
}

fn conditions(autoscaler: &PodAutoscaler, version: ClusterVersion) -> Vec<ConditionView> {
    let status = autoscaler.status.as_ref();
    let all = status.map_or(&[] as &[_], |status| status.conditions.as_slice());
    all.iter().map(|condition| ConditionView::new(autoscaler, condition, version)).collect()
}

// === impl Part ===

impl<T> From<Result<T, String>> for Part<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(Self::Error, Self::Value)
    }
}

// === impl LearningView ===

impl LearningView {
    fn new(status: &PodAutoscalerStatus) -> Option<Self> {
        let learning = status.learning.as_ref()?;
        Some(Self {
            mode: format!("{:?}", learning.mode),
            target: learning.target(),
            phase: learning.phase.clone(),
            message: learning.message.clone(),
        })
    }
}

// === impl ConditionView ===

impl ConditionView {
    fn new(autoscaler: &PodAutoscaler, condition: &Condition, version: ClusterVersion) -> Self {
        Self {
            kind: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: condition.last_transition_time.0.to_string(),
            fix: problem(autoscaler, condition, version).map(|problem| problem.fix),
        }
    }
}

// === impl EventView ===

impl EventView {
    fn new(event: &Event) -> Self {
        let deprecated = event.deprecated_last_timestamp.as_ref().map(|time| time.0.to_string());
        Self {
            at: event.event_time.as_ref().map(|time| time.0.to_string()).or(deprecated),
            warning: event.type_.as_deref() == Some("Warning"),
            reason: event.reason.clone().unwrap_or_default(),
            note: event.note.clone().unwrap_or_default(),
        }
    }
}
