//! Traces of held requests for an OpenTelemetry collector, off without its address.
//!
//! ```text
//! head ─► sampled? ─► trace ─► traceparent to the pod ─► spans ─► bounded queue ─► collector
//! ```
//!
//! A [`Tracer`](tracer::Tracer) decides with the head of a request whether it is traced.
//! The [`RequestTrace`](request_trace::RequestTrace) becomes spans when the response begins or the
//! request fails, from the timestamps of the [cold start](crate::reports::cold_start). A task
//! [exports](span_export) them in batches. A request never waits for the collector: what does not
//! fit in the queue is dropped and counted.

pub mod collector;
pub mod ended_trace;
pub mod parent_context;
pub mod rate_bound;
pub mod request_trace;
pub mod sampler;
pub mod settings;
pub mod span_export;
pub mod spans;
pub mod trace_ids;
pub mod trace_sink;
pub mod tracer;
