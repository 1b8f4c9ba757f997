//! Connections to other processes. Their local ports stay available to listeners.
//!
//! The kernel takes local ports from a range that the leased ports of activators overlap. It
//! selects no port that a listener has. The reverse needs an option: a listener can take the local
//! port of a connection, or of one in TIME_WAIT, only if both sockets have `SO_REUSEADDR`. A sysctl
//! with another range is the alternative, and platforms may refuse pods with one.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

/// Connects to `address`.
///
/// # Errors
/// As of [`TcpStream::connect`].
pub async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv6() { TcpSocket::new_v6()? } else { TcpSocket::new_v4()? };
    socket.set_reuseaddr(true)?;
    socket.connect(address).await
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt, stream};
    use tokio::net::TcpListener;

    use super::*;
    use crate::listener::bind_port;

    /// Other programs of the machine may have a local port as well, to another address. So one of a
    /// few connections is enough.
    const CONNECTIONS: usize = 20;

    #[tokio::test]
    async fn listener_takes_the_local_port_of_a_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(server) = TcpListener::bind(address).await else { continue };
            let address = server.local_addr().unwrap();
            let clients: Vec<_> = stream::iter(0..CONNECTIONS).then(|_| connect(address)).collect().await;
            let mut ports =
                clients.iter().map(|client| client.as_ref().unwrap().local_addr().unwrap().port());
            assert!(ports.any(|port| bind_port(port).is_ok()));
        }
    }

    #[tokio::test]
    async fn listener_takes_the_local_port_of_a_connection_in_time_wait() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut ports = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = connect(server.local_addr().unwrap()).await.unwrap();
            ports.push(client.local_addr().unwrap().port());
            let (accepted, _) = server.accept().await.unwrap();
            // The side that closes first has TIME_WAIT.
            drop(client);
            accepted.readable().await.unwrap();
        }
        assert!(ports.into_iter().any(|port| bind_port(port).is_ok()));
    }
}
