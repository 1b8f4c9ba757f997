//! Ids of a trace and of the spans that this process adds to it.

use opentelemetry::trace::{SpanId, TraceFlags, TraceId, TraceState};
use rand::RngExt;

/// The ids that are fixed with the head of a request.
#[derive(Debug)]
pub struct TraceIds {
    pub trace: TraceId,
    /// Sampled, and others of the trace.
    pub flags: TraceFlags,
    /// Its state in other systems.
    pub state: TraceState,
    /// The span that sent the request.
    pub parent: Option<SpanId>,
    /// The span of the request.
    pub server: SpanId,
    /// The span of its forwarding, the parent of the app's spans.
    pub forward: SpanId,
}

/// Zero is invalid.
pub(super) fn new_trace_id() -> TraceId {
    TraceId::from(rand::rng().random::<u128>().max(1))
}

/// Zero is invalid.
pub(super) fn new_span_id() -> SpanId {
    SpanId::from(rand::rng().random::<u64>().max(1))
}
