//! Connections that are not HTTP: the relay of their bytes, keepalive, and how they end.

mod connection_outcome;
mod keepalive;
mod relay;
mod upgraded;

pub use connection_outcome::{ConnectionCounters, ConnectionOutcome};
pub use keepalive::{enable_keepalive, peer_closed};
pub use relay::{IdleTimeouts, TcpRelay};
pub use upgraded::relay_upgraded;
