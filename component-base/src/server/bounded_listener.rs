//! Accepts connections within bounds.

use tokio::net::{TcpListener, TcpStream};

use super::connection_table::{ConnectionSlot, ConnectionTable};
use super::limits::ConnectionBounds;
use crate::listener;
use crate::listener::keepalive::enable_keepalive;

/// A listener that never stops accepting: one connection too many closes another.
#[derive(Debug)]
pub struct BoundedListener {
    listener: TcpListener,
    connections: ConnectionTable,
}

// === impl BoundedListener ===

impl BoundedListener {
    /// Accepts connections of `listener`.
    pub fn new(listener: TcpListener, bounds: ConnectionBounds) -> Self {
        if let Err(error) = enable_keepalive(&listener) {
            tracing::warn!(%error, "TCP keepalive not enabled");
        }
        Self { listener, connections: ConnectionTable::new(bounds) }
    }

    /// The next connection and its place. The connection must be closed when it is evicted.
    pub async fn accept(&self) -> (TcpStream, ConnectionSlot) {
        let (stream, peer) = listener::accept(&self.listener).await;
        (stream, self.connections.admit(peer.ip()))
    }

    pub(super) fn connections(&self) -> &ConnectionTable {
        &self.connections
    }
}
