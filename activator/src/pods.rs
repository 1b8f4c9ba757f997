//! Pods as destinations: which of them take requests, and the connections to them.
//!
//! [`pod_set`] keeps the pods of one workload, [`prober`] finds out when a starting pod takes
//! requests, [`forwarder`] sends HTTP requests and [`tcp_tunnel`] opens connections for other
//! protocols.

pub mod connector;
pub mod forwarder;
pub mod held_body;
pub mod load_balancing;
pub mod pod_set;
pub mod pod_starts;
pub mod pod_tracker;
pub mod prober;
pub mod tcp_tunnel;
