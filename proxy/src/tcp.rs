//! Connections that are not HTTP: the relay of their bytes, closed clients, and how they end.

mod connection_outcome;
mod peer_closed;
mod relay;
mod upgraded;

pub use connection_outcome::{ConnectionCounters, ConnectionOutcome};
pub use peer_closed::peer_closed;
pub use relay::{IdleTimeouts, TcpRelay};
pub use upgraded::{relay_upgraded, upgraded_connection};
