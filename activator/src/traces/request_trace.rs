//! RequestTrace: the trace of one request, from its head to its response head or failure.
//!
//! Its spans end when it is dropped, so that a client that disconnects ends its trace as well. The
//! trace ends before the response body does, because a stream may take hours.

use std::net::IpAddr;

use http::{HeaderMap, StatusCode};
use opentelemetry::Context;
use opentelemetry::trace::TraceContextExt;
use tokio::time::Instant;

use crate::reports::cold_start::ColdStartTrace;
use crate::traces::spans::RequestSpans;
use crate::traces::trace_context;
use crate::traces::traced_request::{TraceOutcome, TracedRequest};

/// The trace of a sampled request.
#[derive(Debug)]
pub struct RequestTrace {
    spans: RequestSpans,
    request: TracedRequest,
    /// The caller's span, if it has one.
    caller: Context,
    /// The span of the request; `None` until a sampler has selected the trace.
    server: Option<Context>,
    /// The request waited for a pod before `forwarded`.
    held: bool,
    /// When it was sent to the pod that has it now.
    forwarded: Option<Instant>,
    /// The span of the request to the pod.
    forward: Option<Context>,
    outcome: TraceOutcome,
}

// === impl RequestTrace ===

impl RequestTrace {
    /// A trace of a request that has just arrived. Without [`start`](Self::start), it is exported
    /// only if the request is held.
    pub(super) fn new(spans: RequestSpans, caller: Context, request: TracedRequest) -> Self {
        let (held, outcome) = (false, TraceOutcome::Cancelled);
        Self { spans, request, caller, server: None, held, forwarded: None, forward: None, outcome }
    }

    /// Starts the first span; false if the second has no more traces.
    pub(super) fn start(&mut self) -> bool {
        let server = || self.spans.server(&self.caller, &self.request);
        self.server.get_or_insert_with(server).span().is_recording()
    }

    /// The request is sent to a pod now, `held` before or not. The pod's spans become children of
    /// ours.
    pub fn forward(&mut self, now: Instant, held: bool, headers: &mut HeaderMap) {
        self.forwarded = Some(now);
        self.held |= held;
        if self.is_exported()
            && let Some(server) = &self.server
        {
            let forward = self.spans.forward(server, self.request.method, now);
            trace_context::insert(&forward, headers);
            self.forward = Some(forward);
        }
    }

    /// The pod did not take the request, which is held again.
    pub fn hold_again(&mut self) {
        self.forwarded = None;
        if let Some(forward) = self.forward.take() {
            self.spans.end_untaken(&forward, Instant::now());
        }
    }

    /// The request failed with this response.
    pub fn fail(&mut self, status: StatusCode, reason: &'static str) {
        self.outcome = TraceOutcome::Failed { status, reason };
    }

    /// The pod responded.
    pub fn answer(mut self: Box<Self>, status: StatusCode, pod: IpAddr, phases: ColdStartTrace) {
        self.outcome = TraceOutcome::Answered { status, pod, phases };
    }

    /// Traces that have not started do so with the hold.
    fn is_exported(&mut self) -> bool {
        (self.held || self.server.is_some()) && self.start()
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        let now = Instant::now();
        // A request that was not forwarded has ended in the hold.
        self.held |= self.forwarded.is_none();
        if !self.is_exported() {
            return;
        }
        let (spans, outcome) = (&self.spans, &self.outcome);
        if let Some(server) = &self.server {
            if self.held {
                spans.hold(server, outcome, self.request.received, self.forwarded, now);
            }
            if let Some(forward) = &self.forward {
                spans.end_forward(forward, outcome, now);
            }
            spans.end_server(server, outcome, self.held, now);
        }
    }
}
