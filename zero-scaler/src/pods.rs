//! Pods of a workload: which get requests, their endpoints, their sidecars, and why they do not start.

pub mod endpoints;
pub(crate) mod footprint;
mod node_acknowledgements;
pub(crate) mod pod_selection;
pub(crate) mod private_ports;
pub(crate) mod sidecar;
pub mod start_watch;
pub(crate) mod starting_pod;
pub(crate) mod target_port;
pub(crate) mod topology;
