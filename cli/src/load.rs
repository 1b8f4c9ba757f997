//! The load of live workloads: `record` writes it as a trace, `shadow` compares what Rouse would have
//! decided on it with the present pods.
//!
//! ```text
//!  metrics-adapter ─► trace_source ─┬─► record ─► a file, which simulate and shadow read
//!                      a file ──────┴─► shadow ─► shadow_report
//! ```

pub mod record;
pub mod shadow;
mod shadow_report;
mod trace_source;
