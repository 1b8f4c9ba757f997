//! Binds listeners, and accepts connections within a bound on open ones.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tcp::enable_keepalive;

/// Pause after a failed accept, mostly because no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 1024;

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

/// Listens on `address`. The unspecified address of IPv6 accepts IPv4 as well, and is that of IPv4
/// on a host without IPv6.
///
/// # Errors
/// When the address is taken or does not belong to this host.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    with_fallback(address, bind_tcp)
}

/// As [`bind`], for datagrams.
///
/// # Errors
/// When the address is taken or does not belong to this host.
pub fn bind_datagrams(address: SocketAddr) -> io::Result<UdpSocket> {
    with_fallback(address, bind_udp)
}

/// Listens on `port` of all addresses of the host, IPv6 and IPv4.
///
/// # Errors
/// When the port is taken.
pub fn bind_port(port: u16) -> io::Result<TcpListener> {
    bind((Ipv6Addr::UNSPECIFIED, port).into())
}

/// The next connection. Errors are logged and retried.
pub async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
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

fn with_fallback<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    match bind(address) {
        // A taken port is taken for IPv4 too, so that error is the same.
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        // Else it depends on a setting of the host.
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.ip() == Ipv6Addr::UNSPECIFIED {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
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

    #[tokio::test]
    async fn port_accepts_ipv4_and_ipv6() {
        let hosts: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for host in hosts {
            let listener = bind_port(0).unwrap();
            let port = listener.local_addr().unwrap().port();
            // Without IPv6 on this machine, the listener is one of IPv4.
            if host.is_ipv4() || TcpListener::bind((host, 0)).await.is_ok() {
                let (client, accepted) = accepted(listener, (host, port).into()).await;
                assert_eq!(accepted.connection.peer.0, client.local_addr().unwrap().ip());
            }
        }
    }

    #[tokio::test]
    async fn datagrams_are_answered_by_ipv4_and_ipv6() {
        let socket = bind_datagrams((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
        let port = socket.local_addr().unwrap().port();
        let hosts: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for host in hosts {
            let Ok(client) = UdpSocket::bind((host, 0)).await else { continue };
            client.connect((host, port)).await.unwrap();
            client.send(b"query").await.unwrap();
            let mut buffer = [0; 8];
            let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
            socket.send_to(&buffer[..length], from).await.unwrap();
            assert_eq!(client.recv(&mut buffer).await.unwrap(), length);
        }
    }

    #[tokio::test]
    async fn taken_port_is_an_error() {
        let listener = bind_port(0).unwrap();
        assert!(bind_port(listener.local_addr().unwrap().port()).is_err());
    }
}
