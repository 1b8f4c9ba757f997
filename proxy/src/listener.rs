//! Accepts connections of clients within a bound on open ones.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use component_base::listener::accept;
use component_base::listener::keepalive::enable_keepalive;
use http::HeaderValue;
use http_client::BoundConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The local and the remote address of a connection, and what belongs to it alone. Made once for
/// all requests on it.
#[derive(Clone, Debug)]
pub struct ConnectionAddresses {
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The client's address as `X-Forwarded-For` has it: IPv4-mapped addresses as IPv4.
    pub(crate) peer: (IpAddr, HeaderValue),
    /// The connection on which this client has authenticated itself.
    pub bound: BoundConnection,
}

/// An accepted connection, and its permit among those that may be open.
#[derive(Debug)]
pub struct AcceptedConnection {
    /// The socket.
    pub stream: TcpStream,
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
        Self { local, peer: (peer, entry), bound: BoundConnection::default() }
    }

    /// The client's address; an IPv4-mapped one as IPv4.
    pub fn peer_ip(&self) -> IpAddr {
        self.peer.0
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Accepts while fewer than `max_connections` are open; more wait in the kernel's backlog.
    /// The kernel detects peers that vanish: HTTP/1 has no PING, and websockets may have none.
    pub fn new(listener: TcpListener, max_connections: usize) -> Self {
        if let Err(error) = enable_keepalive(&listener) {
            tracing::warn!(%error, "TCP keepalive not enabled");
        }
        Self { listener, permits: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))) }
    }

    /// The next connection. Errors are logged and retried.
    pub async fn accept(&self) -> AcceptedConnection {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = self.permits.clone().acquire_owned().await else { std::future::pending().await };
            let (stream, peer) = accept(&self.listener).await;
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

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;
    use std::time::Duration;

    use socket2::SockRef;

    use super::*;

    async fn accepted(listener: TcpListener, address: SocketAddr) -> (TcpStream, AcceptedConnection) {
        let acceptor = Acceptor::new(listener, 1);
        let (client, accepted) = tokio::join!(TcpStream::connect(address), acceptor.accept());
        (client.unwrap(), accepted)
    }

    #[tokio::test]
    async fn accepted_connections_have_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_client, accepted) = accepted(listener, address).await;
        let socket = SockRef::from(&accepted.stream);
        assert!(socket.keepalive().unwrap());
        let silence = socket.tcp_keepalive_time().unwrap()
            + socket.tcp_keepalive_interval().unwrap() * socket.tcp_keepalive_retries().unwrap();
        assert_eq!(silence, Duration::from_secs(120));
    }

    #[test]
    fn peer_of_ipv4_has_no_ipv6_form() {
        let mapped = "127.0.0.1".parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
        let local = (Ipv6Addr::LOCALHOST, 80).into();
        let connection = ConnectionAddresses::new((mapped, 1234).into(), local);
        assert_eq!(connection.peer.0, IpAddr::from([127, 0, 0, 1]));
    }
}
