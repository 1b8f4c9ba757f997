//! Replica counts of scale targets: reads, writes, and the fast path from zero.
//!
//! `scale_targets` reads and writes the `/scale` subresource. `wake` scales from zero as soon as an
//! activator reports a held request. `overrides` limits the writes of sizes ahead of the HPA.
//! `size_conflicts` detects another writer.

pub mod first_seen;
pub mod overrides;
pub mod scale_targets;
pub mod size_conflicts;
pub mod wake;
pub mod workloads_at_zero;
