//! The data path that queue-proxy and activator share: everything between an accepted connection
//! and the HTTP client.
//!
//! ```text
//!  listener ─► workers ─► server ─► gateway (checks, headers) ─► a binary's handler ─► http_client
//!                     └─► tcp (bytes that are not HTTP, upgraded connections)
//! ```
//!
//! What a request waits for (slots, pods, limits) is decided in the binaries. The ports
//! that carry no traffic have the server of `component_base`.

pub mod app_probe;
pub mod client_stream;
pub mod gateway;
pub mod health_checks;
pub mod incoming_body;
pub mod listener;
pub mod memory;
pub mod server;
mod sync;
pub mod tcp;
pub mod timeouts;
pub mod tracked_body;
pub mod workers;
