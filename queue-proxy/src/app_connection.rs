//! Connects to the app: at its address or, if that is IPv4 loopback, also at IPv6 loopback.
//!
//! A sidecar with only the app's port uses 127.0.0.1. Some apps listen on `[::1]` alone, or on
//! `[::]` without IPv4.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpStream;

/// A connection to the app at `address`.
///
/// # Errors
/// That of `address`, if the app listens on neither loopback address.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    match TcpStream::connect(address).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let Some(other) = other_loopback(address) else { return Err(error) };
            // Without IPv6 the error would be a misleading one.
            TcpStream::connect(other).await.map_err(|_| error)
        }
        connected => connected,
    }
}

fn other_loopback(address: SocketAddr) -> Option<SocketAddr> {
    (address.ip() == Ipv4Addr::LOCALHOST).then(|| (Ipv6Addr::LOCALHOST, address.port()).into())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connects_to_app_on_ipv6_loopback_alone() {
        let Ok(app) = TcpListener::bind("[::1]:0").await else { return };
        let port = app.local_addr().unwrap().port();
        let stream = connect((Ipv4Addr::LOCALHOST, port).into()).await.unwrap();
        assert!(stream.peer_addr().unwrap().is_ipv6());
        drop(app);
        let refused = connect((Ipv4Addr::LOCALHOST, port).into()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(other_loopback(([10, 0, 0, 1], 80).into()), None);
    }
}
