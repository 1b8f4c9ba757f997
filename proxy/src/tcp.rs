//! Connections that are not HTTP: the relay of their bytes, closed clients, and how they end.

mod connection_outcome;
mod relay;
mod upgraded;

pub use crate::client_stream::peer_closed::client_left;
pub use connection_outcome::{ConnectionCounters, ConnectionOutcome};
pub use relay::{IdleTimeouts, TcpRelay};
pub use upgraded::{relay_upgraded, upgraded_connection};
