//! Accepts connections on a listener, within a bound on open connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Pause after a failed accept, mostly because no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The local and the remote address of a connection. Made once for all requests on it.
#[derive(Clone, Debug)]
pub struct ConnectionAddresses {
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The client's address as `X-Forwarded-For` has it: IPv4-mapped addresses as IPv4.
    pub(crate) peer: (IpAddr, HeaderValue),
}

/// An accepted connection, and its permit among those that may be open.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket.
    pub stream: TcpStream,
    /// Its addresses.
    pub connection: ConnectionAddresses,
    pub(crate) permit: OwnedSemaphorePermit,
}

/// An accepted connection on its way from one tokio runtime to another.
#[derive(Debug)]
pub struct DetachedConnection {
    stream: std::net::TcpStream,
    connection: ConnectionAddresses,
    permit: OwnedSemaphorePermit,
}

/// A listener and its bound on open connections.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    permits: Arc<Semaphore>,
}

// === impl ConnectionAddresses ===

impl ConnectionAddresses {
    /// A connection from `peer`, whose port is dropped, to `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        let peer = peer.ip().to_canonical();
        // The text of an address is always a valid header value.
        let entry = HeaderValue::try_from(peer.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Self { local, peer: (peer, entry) }
    }

    /// The client's address; an IPv4-mapped one as IPv4.
    pub fn peer_ip(&self) -> IpAddr {
        self.peer.0
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Accepts while fewer than `max_connections` are open; more wait in the kernel's backlog.
    pub fn new(listener: TcpListener, max_connections: usize) -> Self {
        Self { listener, permits: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))) }
    }

    /// The next connection. Errors are logged and retried.
    pub async fn accept(&self) -> AcceptedConnection {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = self.permits.clone().acquire_owned().await else { std::future::pending().await };
            let (stream, peer) = self.accept_stream().await;
            // A connection that was reset before the accept has no address.
            if let Ok(local) = stream.local_addr() {
                return AcceptedConnection {
                    stream,
                    connection: ConnectionAddresses::new(peer, local),
                    permit,
                };
            }
        }
    }

    async fn accept_stream(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small responses must not wait for an acknowledgement of the previous one.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "could not set TCP_NODELAY");
                    }
                    return (stream, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed, retrying");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

// === impl AcceptedConnection ===

impl AcceptedConnection {
    /// Takes the connection out of its tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be deregistered.
    pub fn detach(self) -> std::io::Result<DetachedConnection> {
        Ok(DetachedConnection {
            stream: self.stream.into_std()?,
            connection: self.connection,
            permit: self.permit,
        })
    }
}

// === impl DetachedConnection ===

impl DetachedConnection {
    /// Registers the connection with the calling tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be registered.
    pub fn attach(self) -> std::io::Result<AcceptedConnection> {
        let stream = TcpStream::from_std(self.stream)?;
        Ok(AcceptedConnection { stream, connection: self.connection, permit: self.permit })
    }
}
