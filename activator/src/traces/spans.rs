//! The spans of one request, with attributes by the semantic conventions of HTTP.
//!
//! ```text
//! GET (SERVER) ─┬─ hold ─┬─ poke
//!               │        ├─ create
//!               │        ├─ schedule
//!               │        ├─ start
//!               │        └─ probe
//!               └─ forward (CLIENT) ── the spans of the sidecar and the app
//! ```
//!
//! The spans are the [phases](ColdStartPhase) of a cold start, by the same names and timestamps.

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use http::StatusCode;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tokio::time::Instant;

use crate::reports::cold_start::{ColdStartPhase, ColdStartTrace};
use crate::traces::ended_trace::{EndedTrace, TraceOutcome, TracedRequest};
use crate::traces::trace_ids::{TraceIds, new_span_id};

/// The phases within a hold. `Pod` is the sum of others.
const HOLD_PHASES: [ColdStartPhase; 5] = [
    ColdStartPhase::Poke,
    ColdStartPhase::Create,
    ColdStartPhase::Schedule,
    ColdStartPhase::Start,
    ColdStartPhase::Probe,
];
const CLIENT_DISCONNECTED: &str = "ClientDisconnected";

/// A span without what all of a request have alike.
struct Span {
    id: SpanId,
    parent: SpanId,
    kind: SpanKind,
    name: &'static str,
    from: Instant,
    to: Instant,
    attributes: Vec<KeyValue>,
    status: Status,
}

/// Converts instants of this process to wall time.
struct WallClock {
    instant: Instant,
    time: SystemTime,
}

/// The spans of a request that ended at `now`.
pub fn of(ended: &EndedTrace<'_>, now: Instant) -> Vec<SpanData> {
    let clock = WallClock { instant: now, time: UNIX_EPOCH + component_base::clock::since_epoch() };
    let mut spans = vec![server(ended, now)];
    if ended.held {
        let hold = hold(ended, now);
        if let TraceOutcome::Answered { phases, .. } = ended.outcome {
            spans.extend(HOLD_PHASES.into_iter().filter_map(|phase| child(phases, phase, hold.id)));
        }
        spans.push(hold);
    }
    spans.extend(ended.forwarded.map(|forwarded| forward(ended, forwarded, now)));
    let scope = InstrumentationScope::builder("rouse").with_version(env!("CARGO_PKG_VERSION")).build();
    spans.into_iter().map(|span| span.into_data(ended.ids, &scope, &clock)).collect()
}

fn server(ended: &EndedTrace<'_>, now: Instant) -> Span {
    let TracedRequest { workload, method, path, version, received } = ended.request;
    let mut attributes = vec![
        KeyValue::new("http.request.method", *method),
        KeyValue::new("url.scheme", "http"),
        KeyValue::new("url.path", path.clone()),
        KeyValue::new("network.protocol.version", *version),
        KeyValue::new("k8s.namespace.name", workload.namespace.clone()),
        KeyValue::new("rouse.workload", workload.name.clone()),
        KeyValue::new("rouse.held", ended.held),
    ];
    attributes.extend(status_code(ended.outcome));
    let error = error_type(ended.outcome, |status| status.is_server_error());
    Span {
        id: ended.ids.server,
        parent: ended.ids.parent.unwrap_or(SpanId::INVALID),
        kind: SpanKind::Server,
        // The conventions' name where the method is not one of HTTP.
        name: if *method == "_OTHER" { "HTTP" } else { method },
        from: *received,
        to: now,
        attributes,
        status: Status::Unset,
    }
    .with_error(error)
}

fn hold(ended: &EndedTrace<'_>, now: Instant) -> Span {
    let span = Span {
        id: new_span_id(),
        parent: ended.ids.server,
        kind: SpanKind::Internal,
        name: ColdStartPhase::Hold.as_str(),
        from: ended.request.received,
        to: ended.forwarded.unwrap_or(now),
        attributes: Vec::new(),
        status: Status::Unset,
    };
    let ended_in_hold = ended.forwarded.is_none();
    span.with_error(error_type(ended.outcome, |_| false).filter(|_| ended_in_hold))
}

/// The span of a phase; `None` if it was not seen or had ended before the request arrived.
fn child(phases: &ColdStartTrace, phase: ColdStartPhase, parent: SpanId) -> Option<Span> {
    let (from, to) = phases.interval(phase).filter(|(from, to)| from < to)?;
    let (kind, name) = (SpanKind::Internal, phase.as_str());
    let (attributes, status) = (Vec::new(), Status::Unset);
    Some(Span { id: new_span_id(), parent, kind, name, from, to, attributes, status })
}

fn forward(ended: &EndedTrace<'_>, forwarded: Instant, now: Instant) -> Span {
    let mut attributes = vec![KeyValue::new("http.request.method", ended.request.method)];
    if let TraceOutcome::Answered { pod, .. } = ended.outcome {
        attributes.push(KeyValue::new("network.peer.address", pod.to_string()));
        attributes.extend(status_code(ended.outcome));
    }
    let is_error = |status: StatusCode| status.is_client_error() || status.is_server_error();
    Span {
        id: ended.ids.forward,
        parent: ended.ids.server,
        kind: SpanKind::Client,
        name: ColdStartPhase::Forward.as_str(),
        from: forwarded,
        to: now,
        attributes,
        status: Status::Unset,
    }
    .with_error(error_type(ended.outcome, is_error))
}

fn status_code(outcome: &TraceOutcome) -> Option<KeyValue> {
    match outcome {
        TraceOutcome::Cancelled => None,
        TraceOutcome::Failed { status, .. } | TraceOutcome::Answered { status, .. } => {
            Some(KeyValue::new("http.response.status_code", i64::from(status.as_u16())))
        }
    }
}

/// What makes the span an error; `is_error` decides for an app's responses.
fn error_type(outcome: &TraceOutcome, is_error: impl Fn(StatusCode) -> bool) -> Option<Cow<'static, str>> {
    match outcome {
        TraceOutcome::Cancelled => Some(CLIENT_DISCONNECTED.into()),
        TraceOutcome::Failed { reason, .. } => Some((*reason).into()),
        TraceOutcome::Answered { status, .. } => is_error(*status).then(|| status.as_str().to_owned().into()),
    }
}

// === impl Span ===

impl Span {
    fn with_error(mut self, error: Option<Cow<'static, str>>) -> Self {
        if let Some(error) = error {
            self.attributes.push(KeyValue::new("error.type", error));
            self.status = Status::error("");
        }
        self
    }

    fn into_data(self, ids: &TraceIds, scope: &InstrumentationScope, clock: &WallClock) -> SpanData {
        let is_server = self.kind == SpanKind::Server;
        SpanData {
            span_context: SpanContext::new(ids.trace, self.id, ids.flags, false, ids.state.clone()),
            parent_span_id: self.parent,
            parent_span_is_remote: is_server && ids.parent.is_some(),
            span_kind: self.kind,
            name: self.name.into(),
            start_time: clock.at(self.from),
            end_time: clock.at(self.to),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.status,
            instrumentation_scope: scope.clone(),
        }
    }
}

// === impl WallClock ===

impl WallClock {
    fn at(&self, instant: Instant) -> SystemTime {
        let ago = self.instant.saturating_duration_since(instant);
        self.time.checked_sub(ago).unwrap_or(UNIX_EPOCH)
    }
}
