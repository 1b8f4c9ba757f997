//! TraceSink: where the spans of all requests go, within a rate.

use std::num::NonZeroU32;

use opentelemetry_sdk::trace::SpanData;
use tokio::time::Instant;

use crate::metrics::traces::TraceMetrics;
use crate::traces::rate_bound::RateBound;
use crate::traces::span_export::SpanQueue;

/// Admits traces and takes their spans.
#[derive(Debug)]
pub struct TraceSink {
    bound: RateBound,
    queue: SpanQueue,
    metrics: TraceMetrics,
}

// === impl TraceSink ===

impl TraceSink {
    /// A sink of so many traces in a second.
    pub fn new(per_second: NonZeroU32, queue: SpanQueue, metrics: TraceMetrics, now: Instant) -> Self {
        Self { bound: RateBound::new(per_second, now), queue, metrics }
    }

    /// Takes one trace of this second; false if there is none.
    pub(super) fn admit(&self, now: Instant) -> bool {
        let is_admitted = self.bound.try_take(now);
        if !is_admitted {
            self.metrics.over_rate();
        }
        is_admitted
    }

    /// Queues the spans of an admitted trace.
    pub(super) fn put(&self, spans: Vec<SpanData>) {
        self.queue.put(spans);
    }
}
