//! RateLimitedSampler: so many traces in each second. A client that marks all its requests as
//! sampled gets no more.

use std::num::NonZeroU32;
use std::sync::Arc;

use opentelemetry::Context;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, SpanKind, TraceId};
use opentelemetry_sdk::trace::{ParentBasedSampler, Sampler, SamplingResult, ShouldSample};
use tokio::time::Instant;

use crate::metrics::traces::TraceMetrics;
use crate::traces::rate_bound::RateBound;

/// Samples the first span of each trace while the second has traces left.
#[derive(Clone, Debug)]
struct RateLimitedSampler {
    bound: Arc<RateBound>,
    metrics: TraceMetrics,
}

/// Samples first spans within a rate, and all spans below a sampled one of this process.
pub fn rate_limited(per_second: NonZeroU32, metrics: TraceMetrics) -> ParentBasedSampler {
    let bound = Arc::new(RateBound::new(per_second, Instant::now()));
    let limited = RateLimitedSampler { bound, metrics };
    Sampler::parent_based(limited.clone())
        .with_remote_parent_sampled(limited.clone())
        .with_remote_parent_not_sampled(limited)
}

// === impl RateLimitedSampler ===

impl ShouldSample for RateLimitedSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let is_within = self.bound.try_take(Instant::now());
        if !is_within {
            self.metrics.over_rate();
        }
        let sampler = if is_within { Sampler::AlwaysOn } else { Sampler::AlwaysOff };
        sampler.should_sample(parent, trace, name, kind, attributes, links)
    }
}
