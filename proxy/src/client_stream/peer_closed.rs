//! Detection of closed clients: while a client waits, the proxy watches for its FIN without reading
//! its bytes. A client that vanishes without a FIN is detected by keepalive.

use std::io;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use http_client::ReadAhead;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Time in which a client is served that has closed its side.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// A connection whose peer may have closed its side.
pub trait PeerClosed {
    /// Whether the peer has closed its side, whatever it has sent before. Reads nothing.
    ///
    /// # Errors
    /// The error with which the connection has ended, as by a reset. It is returned once.
    fn is_peer_closed(&self) -> io::Result<bool>;
}

/// Waits until the peer has closed its side, whatever it has sent before. Reads nothing.
async fn peer_closed(stream: &TcpStream) {
    // No urgent data is requested, so this interest reports only the end of the peer's side.
    match stream.ready(Interest::PRIORITY).await {
        Ok(ready) if !ready.is_read_closed() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

/// Waits until a client that waits for its app has left. One that has closed its side is served if
/// that is possible within a second: it may have sent all that it has to send.
pub async fn client_left(stream: &TcpStream) {
    peer_closed(stream).await;
    sleep(LAST_CHANCE).await;
}

impl PeerClosed for TcpStream {
    fn is_peer_closed(&self) -> io::Result<bool> {
        match self.take_error()? {
            Some(error) => Err(error),
            None => Ok(pin!(peer_closed(self)).poll(&mut Context::from_waker(Waker::noop())).is_ready()),
        }
    }
}

impl<S: PeerClosed> PeerClosed for ReadAhead<S> {
    fn is_peer_closed(&self) -> io::Result<bool> {
        self.get_ref().is_peer_closed()
    }
}

#[cfg(test)]
impl PeerClosed for tokio::io::DuplexStream {
    fn is_peer_closed(&self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::*;

    const DEADLINE: Duration = Duration::from_secs(20);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
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
            let is_closed = stream.is_peer_closed().unwrap();
            assert!(closed.is_err() && !is_closed, "{} bytes are not the end", sent.len());
            drop(client);
            tokio::time::timeout(DEADLINE, peer_closed(&stream)).await.unwrap();
            assert!(stream.is_peer_closed().unwrap());
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, sent, "nothing was taken");
        }
    }

    #[tokio::test]
    async fn client_that_waits_has_left_a_second_after_its_close() {
        let (client, stream) = pair().await;
        let mut left = pin!(client_left(&stream));
        drop(client);
        peer_closed(&stream).await;
        let closed = Instant::now();
        tokio::time::timeout(DEADLINE, &mut left).await.unwrap();
        assert!(closed.elapsed() >= LAST_CHANCE / 2);
    }
}
