//! Binds the listeners of a process, and accepts connections.
//!
//! `server` accepts the connections of the ports without traffic through it, and the data path the
//! connections of its ports. Connections to other processes are here because listeners take their
//! local ports.

pub mod client_network;
pub mod keepalive;
pub mod outbound;
pub mod until_stop;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

/// Pause after a failed accept, mostly because no file descriptor is left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Connections that wait in the kernel to be accepted.
const BACKLOG: u32 = 1024;

/// Listens on `address`. The unspecified address of IPv6 accepts IPv4 as well; on a host without
/// IPv6, the unspecified address of IPv4 is used.
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
    let bound = match bind(address) {
        // A taken port is taken for IPv4 too, so that error is the same.
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        bound => bound,
    };
    bound.map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[tokio::test]
    async fn port_accepts_ipv4_and_ipv6() {
        let hosts: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        for host in hosts {
            let listener = bind_port(0).unwrap();
            let port = listener.local_addr().unwrap().port();
            // Without IPv6 on this machine, the listener is one of IPv4.
            if host.is_ipv4() || TcpListener::bind((host, 0)).await.is_ok() {
                let (client, (_, peer)) = tokio::join!(TcpStream::connect((host, port)), accept(&listener));
                assert_eq!(peer.ip().to_canonical(), client.unwrap().local_addr().unwrap().ip());
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
