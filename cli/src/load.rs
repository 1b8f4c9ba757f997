//! The load of workloads: `record` writes the load of a live workload as a trace, `shadow` compares
//! what Rouse would have decided on it with the present pods, `simulate` replays a trace.
//!
//! ```text
//!  metrics-adapter ─► trace_source ─┬─► record ─► a file, which simulate and shadow read
//!                      a file ──────┼─► shadow ─► shadow_report
//!                                   └─► simulate
//! ```

pub mod record;
pub mod shadow;
mod shadow_report;
pub mod simulate;
mod trace_source;
