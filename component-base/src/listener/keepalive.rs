//! TCP keepalive: the kernel detects peers that vanish.
//!
//! A websocket or a connection of bytes may be idle for days and be healthy, and a response may
//! take minutes. So the kernel probes the peer of every silent connection, and one that vanished is
//! detected within two minutes. With bytes on the way to it, the kernel's retransmissions end after
//! about 15 minutes. `TCP_USER_TIMEOUT` shortens that, but also closes connections to peers that
//! pause reading. So only HTTP/2 connections have it: their peers read at any time, because each
//! stream has a window of its own.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

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

/// Closes a connection whose peer has not acknowledged sent bytes, or not read, for as long as a
/// silent peer that vanished remains undetected.
///
/// # Errors
/// When it is not a TCP socket.
pub fn bound_unacknowledged(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_tcp_user_timeout(Some(IDLE_TIME + INTERVAL * PROBES))
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn accepted_connections_inherit_keepalive() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        enable_keepalive(&listener).unwrap();
        let (_client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (stream, _) = accepted.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE_TIME);
        assert_eq!(socket.tcp_user_timeout().unwrap(), None);
        bound_unacknowledged(&stream).unwrap();
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(Duration::from_secs(120)));
    }
}
