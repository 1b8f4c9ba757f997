//! Traces of held requests for an OpenTelemetry collector, off without its address.
//!
//! ```text
//! head ─► sampled? ─► trace ─► traceparent to the pod ─► spans ─► bounded queue ─► collector
//! ```
//!
//! A [`Tracer`](tracer::Tracer) decides with the head of a request whether it is traced. The
//! spans of its [`RequestTrace`](request_trace::RequestTrace) end when the response begins or the
//! request fails, with the timestamps of the [cold start](crate::reports::cold_start). The SDK
//! [exports](span_export) them in batches. A request never waits for the collector: what does not
//! fit in the queue is dropped and counted.

pub mod collector;
mod rate_bound;
pub mod rate_limited_sampler;
pub mod request_trace;
pub mod settings;
pub mod span_export;
mod spans;
mod trace_context;
mod traced_request;
pub mod tracer;
