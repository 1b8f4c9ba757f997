//! Tracer: decides which requests are traced.
//!
//! A request that its caller has sampled is traced. Without a caller's decision, it is traced only
//! if it was held: other requests show nothing about a wake.

use std::sync::Arc;

use autoscaler::Key;
use http::request::Parts;
use opentelemetry::trace::{TraceFlags, TraceState};
use tokio::time::Instant;

use crate::traces::ended_trace::TracedRequest;
use crate::traces::parent_context::{self, ParentContext};
use crate::traces::request_trace::RequestTrace;
use crate::traces::sampler::Sampler;
use crate::traces::trace_ids::{TraceIds, new_span_id, new_trace_id};
use crate::traces::trace_sink::TraceSink;

/// Begins traces. It exists only if spans are exported.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    sink: Arc<TraceSink>,
}

// === impl Tracer ===

impl Tracer {
    /// A tracer of the requests that `sampler` selects.
    pub fn new(sampler: Sampler, sink: TraceSink) -> Self {
        Self { sampler, sink: Arc::new(sink) }
    }

    /// The trace of a request for `workload`; `None` if it is not sampled.
    pub fn begin(&self, head: &Parts, workload: &Key, received: Instant) -> Option<Box<RequestTrace>> {
        let parent = ParentContext::of(&head.headers).ok()?;
        let trace = parent.as_ref().map_or_else(new_trace_id, |parent| parent.trace);
        let decision = parent.as_ref().map(|parent| parent.flags.is_sampled());
        if !self.sampler.samples(decision, trace) {
            return None;
        }
        // The others are admitted when they are held.
        let is_admitted = decision == Some(true);
        if is_admitted && !self.sink.admit(received) {
            return None;
        }
        let (flags, state) = match &parent {
            Some(parent) => (parent.sampled_flags(), parent_context::state(&head.headers)),
            None => (TraceFlags::SAMPLED, TraceState::default()),
        };
        let (parent, server, forward) = (parent.map(|parent| parent.span), new_span_id(), new_span_id());
        let ids = TraceIds { trace, flags, state, parent, server, forward };
        let request = TracedRequest::of(head, workload, received);
        Some(Box::new(RequestTrace::new(self.sink.clone(), ids, request, is_admitted)))
    }
}
