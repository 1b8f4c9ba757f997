//! The accepting side of a listener: a bound on open connections, and each connection with the addresses of its two ends.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Wait after a failed accept (out of file descriptors, mostly) before the next try.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The two ends of the connection that a request comes on. Made once for all of its requests.
#[derive(Clone, Debug)]
pub struct ConnectionAddresses {
    /// The address that the caller connected to.
    pub local: SocketAddr,
    /// The caller's address, IPv4 as such, as `X-Forwarded-For` names it.
    pub(crate) peer: (IpAddr, HeaderValue),
}

/// A connection that somebody made, and its place among those that may be open.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket.
    pub stream: TcpStream,
    /// Its ends.
    pub connection: ConnectionAddresses,
    pub(crate) place: OwnedSemaphorePermit,
}

/// An accepted connection between two runtimes.
#[derive(Debug)]
pub struct DetachedConnection {
    stream: std::net::TcpStream,
    connection: ConnectionAddresses,
    place: OwnedSemaphorePermit,
}

/// A listener and the bound on what it lets in.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

// === impl ConnectionAddresses ===

impl ConnectionAddresses {
    /// A connection from `peer`, whatever its port, to `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        let peer = peer.ip().to_canonical();
        // An address is made of what a header may hold.
        let entry = HeaderValue::try_from(peer.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Self { local, peer: (peer, entry) }
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Lets in at most `max_connections` at a time; more wait in the kernel's backlog.
    pub fn new(listener: TcpListener, max_connections: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))) }
    }

    /// The next connection. Never fails: what goes wrong is logged, and tried again.
    pub async fn accept(&self) -> AcceptedConnection {
        loop {
            // The semaphore is never closed.
            let Ok(place) = self.places.clone().acquire_owned().await else { std::future::pending().await };
            let (stream, peer) = self.accept_stream().await;
            // A caller that is gone already has no address.
            if let Ok(local) = stream.local_addr() {
                return AcceptedConnection {
                    stream,
                    connection: ConnectionAddresses::new(peer, local),
                    place,
                };
            }
        }
    }

    async fn accept_stream(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers must not wait for an acknowledgement of the one before.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "no TCP_NODELAY");
                    }
                    return (stream, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

// === impl AcceptedConnection ===

impl AcceptedConnection {
    /// The same connection, to be driven by the runtime that calls [`attach`](DetachedConnection::attach).
    ///
    /// # Errors
    /// When the socket cannot leave its runtime.
    pub fn detach(self) -> std::io::Result<DetachedConnection> {
        Ok(DetachedConnection {
            stream: self.stream.into_std()?,
            connection: self.connection,
            place: self.place,
        })
    }
}

// === impl DetachedConnection ===

impl DetachedConnection {
    /// Takes the connection into the calling runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch the socket.
    pub fn attach(self) -> std::io::Result<AcceptedConnection> {
        let stream = TcpStream::from_std(self.stream)?;
        Ok(AcceptedConnection { stream, connection: self.connection, place: self.place })
    }
}
