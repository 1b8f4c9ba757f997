//! Server: writes one reply on a connection, and a valid response on the next one.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use http_client::{BoxError, Pool, PoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::error::Elapsed;

use crate::reply::{Closing, Reply};

/// Timeout of one exchange.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

const OPTIONS: PoolOptions = PoolOptions { idle_timeout: Duration::from_secs(60), max_idle: 1 };
const REQUEST_BODY: &[u8] = b"hello";
const WELL_FORMED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwell";

/// A loopback server of raw bytes.
pub(crate) struct Server(TcpListener);

/// A complete response.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) status: StatusCode,
    pub(crate) content_length: Option<u64>,
    pub(crate) data: Vec<u8>,
}

// === impl Server ===

impl Server {
    pub(crate) async fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Sends a request that gets `reply`, then checks that the pool serves another request.
    pub(crate) async fn exchange(
        &self,
        method: Method,
        reply: &Reply,
    ) -> Result<Result<Received, BoxError>, Elapsed> {
        let (address, pool) = (self.0.local_addr().unwrap(), Pool::new(OPTIONS));
        let exchange = async {
            let (received, ()) = tokio::join!(request(&pool, address, method), self.reply(reply));
            let well_formed = Reply { segments: vec![WELL_FORMED.to_vec()], closing: Closing::Close };
            let (next, ()) = tokio::join!(request(&pool, address, Method::GET), self.reply(&well_formed));
            assert_eq!(next.expect("a response after the reply").data, b"well", "after\n{reply}");
            received
        };
        tokio::time::timeout(TIMEOUT, exchange).await
    }

    /// Writes `start` and then `repeated` up to `length` bytes. Returns the number of bytes that
    /// the connection accepted, and the result of the client.
    pub(crate) async fn flood(
        &self,
        start: &[u8],
        repeated: &[u8],
        length: usize,
    ) -> (usize, Result<Received, BoxError>) {
        let (address, pool) = (self.0.local_addr().unwrap(), Pool::new(OPTIONS));
        let part = repeated.repeat(64 * 1024 / repeated.len());
        let write = async {
            let mut stream = self.accept().await;
            let mut written = 0;
            while written < length {
                let bytes = if written == 0 { start } else { &part };
                match stream.write(bytes).await {
                    Ok(accepted) => written += accepted,
                    Err(_) => break,
                }
            }
            written
        };
        let (received, written) = tokio::join!(request(&pool, address, Method::GET), write);
        (written, received)
    }

    /// Accepts a connection and reads its request.
    async fn accept(&self) -> TcpStream {
        let (mut stream, _) = self.0.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut read = Vec::new();
        // Bytes left unread would turn the close into a reset.
        while !read.ends_with(if read.starts_with(b"POST") { REQUEST_BODY } else { b"\r\n\r\n" }) {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "the request is incomplete");
        }
        stream
    }

    async fn reply(&self, reply: &Reply) {
        let mut stream = self.accept().await;
        for segment in &reply.segments {
            // The client closes as soon as a response is invalid.
            if stream.write_all(segment).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        if reply.closing == Closing::Reset {
            reset(&stream);
        }
    }
}

/// Sends one request and reads the response to its end.
async fn request(pool: &Pool, address: SocketAddr, method: Method) -> Result<Received, BoxError> {
    let body = if method == Method::POST { REQUEST_BODY } else { b"" };
    let request = Request::builder().method(method).header(header::HOST, "x");
    let request = if body.is_empty() { request } else { request.header(header::CONTENT_LENGTH, body.len()) };
    let (head, body) = request.body(Full::new(Bytes::from_static(body)))?.into_parts();
    let response = pool.send(head, body, None, || TcpStream::connect(address)).await?;
    let (head, mut body) = response.into_parts();
    let content_length = head.headers.get(header::CONTENT_LENGTH);
    // A response to HEAD may have one that is not a number: it frames nothing.
    let content_length = content_length.and_then(|length| length.to_str().ok()?.parse().ok());
    let mut data = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame?.into_data() {
            data.extend_from_slice(&part);
        }
    }
    Ok(Received { status: head.status, content_length, data })
}

/// A close with a linger of zero is a reset.
#[allow(deprecated, reason = "with zero it does not block, which is why it was deprecated")]
fn reset(stream: &TcpStream) {
    stream.set_linger(Some(Duration::ZERO)).unwrap();
}
