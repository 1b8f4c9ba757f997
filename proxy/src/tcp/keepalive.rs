//! TCP keepalive and the detection of closed clients.
//!
//! A websocket or a connection of bytes may be idle for days and be healthy, and a response may
//! take minutes. So the kernel probes the peer of every silent connection, and one that vanished is
//! detected within two minutes. With bytes on the way to it, the kernel's retransmissions end after
//! about 15 minutes. `TCP_USER_TIMEOUT` would shorten that, but would also close connections to
//! peers that pause reading. While a client waits, the proxy watches for its FIN without reading
//! its bytes.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Idle time before the first probe. Load balancers and NAT drop idle connections after some
/// minutes, so the probes keep those alive as well.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// Between two probes.
const INTERVAL: Duration = Duration::from_secs(15);
/// Unanswered probes that close the connection.
const PROBES: u32 = 4;

/// Enables keepalive probes. Connections inherit this from their listener.
///
/// # Errors
/// When it is not a TCP socket.
pub fn enable_keepalive(socket: &impl AsFd) -> io::Result<()> {
    let keepalive = TcpKeepalive::new().with_time(IDLE_TIME).with_interval(INTERVAL).with_retries(PROBES);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

/// Waits until the peer has closed its side, whatever it has sent before. Reads nothing.
pub async fn peer_closed(stream: &TcpStream) {
    // No urgent data is requested, so this interest reports only the end of the peer's side.
    match stream.ready(Interest::PRIORITY).await {
        Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        enable_keepalive(&listener).unwrap();
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn peer_closed_detects_close_behind_unread_bytes() {
        for sent in [b"".as_slice(), b"AUTH", &[7; 10_000]] {
            let (mut client, mut stream) = pair().await;
            client.write_all(sent).await.unwrap();
            let closed = tokio::time::timeout(Duration::from_millis(20), peer_closed(&stream)).await;
            assert!(closed.is_err(), "{} bytes are no end", sent.len());
            drop(client);
            tokio::time::timeout(DEADLINE, peer_closed(&stream)).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, sent, "nothing was taken");
        }
    }

    #[tokio::test]
    async fn accepted_connections_inherit_keepalive() {
        let (_client, stream) = pair().await;
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE_TIME);
    }
}
