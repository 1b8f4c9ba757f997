//! Bounds and timeouts of a server.

use std::time::Duration;

/// Bounds on the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionBounds {
    /// Open connections in all, without authenticated ones.
    pub total: usize,
    /// Open connections of one peer address, without authenticated ones.
    pub per_peer: usize,
    /// Connections that are marked as authenticated.
    pub authenticated: usize,
}

/// HTTP/2 settings of a server.
#[derive(Clone, Copy, Debug)]
pub struct Http2Limits {
    /// Concurrent streams of a connection.
    pub max_streams: u32,
    /// Interval of PING, and the timeout of its acknowledgement.
    pub ping: Duration,
}

/// Bounds and timeouts of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    pub connections: ConnectionBounds,
    /// Time to receive a request's head, and for the first request of a connection.
    pub header_read_timeout: Duration,
    /// Time without a running request after which a connection is closed. PING does not count.
    pub idle_timeout: Duration,
    /// Time for running requests to finish after the stop.
    pub drain_timeout: Duration,
    /// Settings of HTTP/2; `None` serves HTTP/1.1 alone.
    pub http2: Option<Http2Limits>,
}

// === impl ConnectionBounds ===

impl ConnectionBounds {
    /// Of a port for probes and scrapes. A kubelet and a Prometheus open a few connections, a
    /// zero-scaler up to 64 to announce probes.
    pub const PROBES: Self = Self { total: 512, per_peer: 128, authenticated: 0 };
}

// === impl ServerLimits ===

impl Default for ServerLimits {
    /// Of a port for probes and scrapes. Kubelets and Prometheus use HTTP/1.1.
    fn default() -> Self {
        Self {
            connections: ConnectionBounds::PROBES,
            header_read_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(1),
            http2: None,
        }
    }
}
