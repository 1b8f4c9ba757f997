//! Pods of a workload: which get requests, their endpoints, and why they do not start.

pub mod endpoints;
mod inference_pools;
mod next_pod;
mod node_acknowledgements;
pub(crate) mod pod_selection;
pub(crate) mod private_ports;
pub mod start_watch;
pub(crate) mod target_port;
pub(crate) mod topology;
pub mod wake_checks;
