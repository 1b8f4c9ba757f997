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
//! The spans are the [phases](ColdStartPhase) of a cold start, by the same names and timestamps. A
//! context stands for its span.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::StatusCode;
use opentelemetry::trace::{SpanKind, Status, TraceContextExt, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tokio::time::Instant;

use crate::reports::cold_start::{ColdStartPhase, ColdStartTrace};
use crate::traces::traced_request::{TraceOutcome, TracedRequest};

/// The phases within a hold. `Pod` is the sum of others.
const HOLD_PHASES: [ColdStartPhase; 5] = [
    ColdStartPhase::Poke,
    ColdStartPhase::Create,
    ColdStartPhase::Schedule,
    ColdStartPhase::Start,
    ColdStartPhase::Probe,
];
const CLIENT_DISCONNECTED: &str = "ClientDisconnected";

/// Starts and ends the spans of one request.
#[derive(Debug)]
pub(super) struct RequestSpans {
    tracer: SdkTracer,
    /// Wall time of the epoch of [`Instant`]s of this request, so that equal instants are equal.
    base: (Instant, Duration),
}

// === impl RequestSpans ===

impl RequestSpans {
    pub(super) fn new(tracer: SdkTracer) -> Self {
        Self { tracer, base: (Instant::now(), component_base::clock::since_epoch()) }
    }

    /// The span of the request below its caller's. It does not record beyond the rate.
    pub(super) fn server(&self, caller: &Context, request: &TracedRequest) -> Context {
        let TracedRequest { workload, method, path, version, received } = request;
        // The conventions' name where the method is not one of HTTP.
        let name = if *method == "_OTHER" { "HTTP" } else { method };
        let server = self.start(caller, name, SpanKind::Server, *received);
        if server.span().is_recording() {
            server.span().set_attributes([
                KeyValue::new("http.request.method", *method),
                KeyValue::new("url.scheme", "http"),
                KeyValue::new("url.path", path.clone()),
                KeyValue::new("network.protocol.version", *version),
                KeyValue::new("k8s.namespace.name", workload.namespace.clone()),
                KeyValue::new("rouse.workload", workload.name.clone()),
            ]);
        }
        server
    }

    /// The span of an attempt to send the request to a pod.
    pub(super) fn forward(&self, server: &Context, method: &'static str, from: Instant) -> Context {
        let forward = self.start(server, ColdStartPhase::Forward.as_str(), SpanKind::Client, from);
        forward.span().set_attribute(KeyValue::new("http.request.method", method));
        forward
    }

    /// Ends an attempt after which the request was held again.
    pub(super) fn end_untaken(&self, forward: &Context, now: Instant) {
        self.end(forward, Some("NotTaken".into()), now);
    }

    /// Ends the attempt with the outcome of its request.
    pub(super) fn end_forward(&self, forward: &Context, outcome: &TraceOutcome, now: Instant) {
        let span = forward.span();
        if let TraceOutcome::Answered { pod, .. } = outcome {
            span.set_attribute(KeyValue::new("network.peer.address", pod.to_string()));
            span.set_attributes(status_code(outcome));
        }
        let is_error = |status: StatusCode| status.is_client_error() || status.is_server_error();
        self.end(forward, error_type(outcome, is_error), now);
    }

    /// The span of the hold with those of its phases; `to` is `None` if the request ended in it.
    pub(super) fn hold(
        &self,
        server: &Context,
        outcome: &TraceOutcome,
        from: Instant,
        to: Option<Instant>,
        now: Instant,
    ) {
        let hold = self.start(server, ColdStartPhase::Hold.as_str(), SpanKind::Internal, from);
        if let TraceOutcome::Answered { phases, .. } = outcome {
            HOLD_PHASES.into_iter().for_each(|phase| self.phase(&hold, phases, phase));
        }
        let error = error_type(outcome, |_| false).filter(|_| to.is_none());
        self.end(&hold, error, to.unwrap_or(now));
    }

    /// A phase that was not seen, or had ended before the request arrived, has no span.
    fn phase(&self, hold: &Context, phases: &ColdStartTrace, phase: ColdStartPhase) {
        if let Some((from, to)) = phases.interval(phase).filter(|(from, to)| from < to) {
            self.end(&self.start(hold, phase.as_str(), SpanKind::Internal, from), None, to);
        }
    }

    /// Ends the span of the request.
    pub(super) fn end_server(&self, server: &Context, outcome: &TraceOutcome, held: bool, now: Instant) {
        server.span().set_attribute(KeyValue::new("rouse.held", held));
        server.span().set_attributes(status_code(outcome));
        self.end(server, error_type(outcome, |status| status.is_server_error()), now);
    }

    fn start(&self, parent: &Context, name: &'static str, kind: SpanKind, at: Instant) -> Context {
        let span = self.tracer.span_builder(name).with_kind(kind).with_start_time(self.wall_time(at));
        parent.with_span(span.start_with_context(&self.tracer, parent))
    }

    fn end(&self, context: &Context, error: Option<Cow<'static, str>>, at: Instant) {
        let span = context.span();
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error.type", error));
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(self.wall_time(at));
    }

    fn wall_time(&self, instant: Instant) -> SystemTime {
        let (base, since_epoch) = self.base;
        let later = since_epoch + instant.saturating_duration_since(base);
        UNIX_EPOCH + later.saturating_sub(base.saturating_duration_since(instant))
    }
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
