//! Pods of a workload: their endpoints, their sidecars, and why they do not start.

pub mod endpoints;
pub(crate) mod sidecar;
pub mod start_watch;
pub(crate) mod starting_pod;
