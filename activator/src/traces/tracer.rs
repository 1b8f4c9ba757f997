//! Tracer: decides which requests are traced.
//!
//! A request that its caller has sampled is traced. Without a caller's decision, it is traced only
//! if it was held: other requests show nothing about a wake.

use autoscaler::Key;
use http::request::Parts;
use opentelemetry::trace::{SpanKind, TraceContextExt};
use opentelemetry_sdk::trace::{
    IdGenerator, RandomIdGenerator, Sampler, SamplingDecision, SdkTracer, ShouldSample,
};
use tokio::time::Instant;

use crate::traces::request_trace::RequestTrace;
use crate::traces::spans::RequestSpans;
use crate::traces::trace_context;
use crate::traces::traced_request::TracedRequest;

/// Begins traces. It exists only if spans are exported.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    spans: SdkTracer,
}

// === impl Tracer ===

impl Tracer {
    /// A tracer of the requests that `sampler` selects.
    pub fn new(sampler: Sampler, spans: SdkTracer) -> Self {
        Self { sampler, spans }
    }

    /// The trace of a request for `workload`; `None` if it is not sampled.
    pub fn begin(&self, head: &Parts, workload: &Key, received: Instant) -> Option<Box<RequestTrace>> {
        let caller = trace_context::of(&head.headers);
        let ids = caller.span().span_context().clone();
        // Sampled before there is a span, so that all other requests cost no more than this.
        let id = if ids.is_valid() { ids.trace_id() } else { RandomIdGenerator::default().new_trace_id() };
        let sampled = self.sampler.should_sample(Some(&caller), id, "", &SpanKind::Server, &[], &[]);
        if sampled.decision == SamplingDecision::Drop {
            return None;
        }
        let request = TracedRequest::of(head, workload, received);
        let mut trace = Box::new(RequestTrace::new(RequestSpans::new(self.spans.clone()), caller, request));
        // The others start when they are held.
        (!ids.is_sampled() || trace.start()).then_some(trace)
    }
}
