//! The HTTP server of all ports that carry no traffic: probes, metrics, the stats port, the metrics
//! API.
//!
//! ```text
//!  BoundedListener ──────────► connection ─► handler
//!   accepts every connection    │ header timeout, idle timeout
//!   ConnectionTable: bounds ────┴► evicted when another connection needs its place
//! ```
//!
//! Any pod of the cluster reaches these ports, and the kubelet restarts a process whose probe
//! fails. So no client may take the places of another. A full server does not stop accepting: it
//! closes a connection of the peer address that holds the most, so a kubelet's new connection
//! always has a place. Authenticated connections leave that competition and have a bound of their
//! own.

mod bounded_listener;
mod connection_activity;
mod connection_table;
mod http_server;
mod limits;
#[cfg(test)]
mod tests;

pub use bounded_listener::BoundedListener;
pub use connection_table::ConnectionSlot;
pub use http_server::{ClientAddress, ConnectionError, HttpHandler, serve, serve_with};
pub use limits::{ConnectionBounds, Http2Limits, ServerLimits};
