//! Liveness: whether the other end of a TCP connection is still there, where no protocol tells.
//!
//! HTTP has heads that must come in time, and PING. A connection of bytes may be silent for days and be well. So the kernels
//! ask each other, and a peer that vanished without a word is noticed within two minutes; and a caller that waits is watched
//! for its own end, without a look at what it has sent.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Silence after which a peer is asked for the first time. Most that stands between two ends (load balancers, address
/// translation) forgets connections only after some minutes of silence, so this keeps them as well.
const IDLE: Duration = Duration::from_secs(60);
/// Between two questions.
const INTERVAL: Duration = Duration::from_secs(15);
/// Questions without an answer that end the connection.
const QUESTIONS: u32 = 4;

/// Has the kernel ask a silent peer whether it is there. A listener hands this down to what it accepts.
///
/// # Errors
/// When the socket is none of TCP.
pub fn enable_keepalive(socket: &impl AsFd) -> io::Result<()> {
    let often = TcpKeepalive::new().with_time(IDLE).with_interval(INTERVAL).with_retries(QUESTIONS);
    SockRef::from(socket).set_tcp_keepalive(&often)
}

/// Waits until the peer has ended its side, whatever it has sent before that. Nothing is read.
pub async fn peer_closed(stream: &TcpStream) {
    // Nobody asked the kernel for urgent bytes, so only the end of the peer's side is told under this name.
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
        let (caller, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (caller.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn a_caller_that_hangs_up_is_noticed_behind_what_it_has_sent() {
        for says in [b"".as_slice(), b"AUTH", &[7; 10_000]] {
            let (mut caller, mut stream) = pair().await;
            caller.write_all(says).await.unwrap();
            let still_there = tokio::time::timeout(Duration::from_millis(20), peer_closed(&stream)).await;
            assert!(still_there.is_err(), "{} bytes are no end", says.len());
            drop(caller);
            tokio::time::timeout(DEADLINE, peer_closed(&stream)).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, says, "nothing was taken");
        }
    }

    #[tokio::test]
    async fn what_a_listener_accepts_is_asked() {
        let (_caller, stream) = pair().await;
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), IDLE);
    }
}
