//! PodConnections: the connections to each pod, by its address.
//!
//! Idle connections to a pod close by age. The empty entry of such a pod is removed when the next
//! new pod is added.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_client::{Http2Options, Http2Pool, Pool, PoolOptions};
use parking_lot::Mutex;

/// The idle time is shorter than the pods' own, so that no connection is used while the pod closes
/// it.
const POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_secs(15), max_idle: 1024 };
/// The same for apps: servers close idle connections after 2 s (gunicorn) or 5 s (Node.js).
const APP_POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_millis(1500), max_idle: 1024 };
/// A queue-proxy that is lost with its node would keep its streams until the kernel detects it. Its
/// window fits the uploads of all streams.
const HTTP2: Http2Options = Http2Options {
    ping: Some(Duration::from_secs(10)),
    idle_timeout: Duration::from_secs(15),
    stream_timeout: Duration::from_secs(10),
    upload_window: None,
};
/// Without PING: gRPC servers end a connection after the third PING in five minutes without data,
/// so silent streams would be cut. Keepalive and the user timeout of TCP detect lost apps.
const APP_HTTP2: Http2Options =
    Http2Options { ping: None, upload_window: Some(Http2Pool::LEAST_WINDOW), ..HTTP2 };

#[derive(Debug, Default)]
pub(super) struct PodConnections {
    /// Each request looks its pod up; a hash of the address costs more than some comparisons.
    by_pod: Mutex<BTreeMap<SocketAddr, Arc<PodConnection>>>,
}

#[derive(Debug)]
pub(super) struct PodConnection {
    pub(super) http1: Pool,
    pub(super) http2: Http2Pool,
}

// === impl PodConnections ===

impl PodConnections {
    /// The connections to the pod at `address`: to its queue-proxy, or to its app.
    pub(super) fn to(&self, address: SocketAddr, is_queue_proxy: bool) -> Arc<PodConnection> {
        let mut by_pod = self.by_pod.lock();
        if let Some(pod) = by_pod.get(&address) {
            return pod.clone();
        }
        by_pod.retain(|_, pod| Arc::strong_count(pod) > 1 || pod.is_used());
        let (pool, http2) = if is_queue_proxy { (POOL, HTTP2) } else { (APP_POOL, APP_HTTP2) };
        let connection = || Arc::new(PodConnection::new(pool, http2));
        by_pod.entry(address).or_insert_with(connection).clone()
    }
}

// === impl PodConnection ===

impl PodConnection {
    fn new(pool: PoolOptions, http2: Http2Options) -> Self {
        Self { http1: Pool::new(pool), http2: Http2Pool::new(http2) }
    }

    fn is_used(&self) -> bool {
        !(self.http1.is_unused() && self.http2.is_unused())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;
    use http_body_util::Empty;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    const PREFACE: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    /// Length of a frame's head, and the place of its type in it.
    const HEAD: usize = 9;
    const KIND: usize = 3;
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const SETTINGS: [u8; HEAD] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const SILENCE: Duration = Duration::from_secs(3600);

    /// Whether the client sends PING on a silent stream within `SILENCE`.
    async fn pings(is_queue_proxy: bool) -> bool {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let connections = PodConnections::default();
        let pod = connections.to(address, is_queue_proxy);
        let (head, body) = Request::get("http://a/").body(Empty::<Bytes>::new()).unwrap().into_parts();
        let silent = pod.http2.send(head, body, move || TcpStream::connect(address));
        let serve = async {
            let (mut stream, _) = server.accept().await.unwrap();
            stream.read_exact(&mut [0; PREFACE]).await.unwrap();
            stream.write_all(&SETTINGS).await.unwrap();
            loop {
                let mut head = [0; HEAD];
                // The end of the connection does not overtake its frames.
                if stream.read_exact(&mut head).await.is_err() {
                    return false;
                }
                if head[KIND] == PING {
                    return true;
                }
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                stream.read_exact(&mut vec![0; length as usize]).await.unwrap();
                // Time passes only behind the handshake.
                if head[KIND] == HEADERS {
                    tokio::time::pause();
                }
            }
        };
        tokio::join!(tokio::time::timeout(SILENCE, silent), serve).1
    }

    #[tokio::test]
    async fn sends_no_ping_on_silent_streams_of_apps() {
        assert!(!pings(false).await);
    }

    #[tokio::test]
    async fn sends_ping_on_silent_streams_of_queue_proxies() {
        assert!(pings(true).await);
    }
}
