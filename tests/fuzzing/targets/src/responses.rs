//! Bytes of an app on a connection of the proxies' client of HTTP/1.1.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Empty};
use http_client::{BoxError, Pool, PoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

pub(crate) const WORDS: &[&[u8]] = &[
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"\r\n",
    b"content-length: 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
    b"ffffffffffffffff\r\n",
    b"5;a=b\r\nhello\r\n",
    b"0\r\n\r\n",
];

const OPTIONS: PoolOptions = PoolOptions { idle_timeout: Duration::from_secs(60), max_idle: 1 };
const ENDS: Duration = Duration::from_secs(20);

thread_local! {
    static APP: (Runtime, TcpListener) = {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        (runtime, listener)
    };
}

pub(crate) fn check(bytes: &[u8]) {
    APP.with(|(runtime, listener)| {
        let exchange = async { tokio::join!(request(listener), respond(listener, bytes)) };
        let timeout = async { tokio::time::timeout(ENDS, exchange).await };
        let (received, ()) = runtime.block_on(timeout).expect("a response ends with its connection");
        if let Ok((length, data)) = received {
            assert!(data <= bytes.len());
            assert!(length.is_none_or(|length| length == data as u64), "{length:?} of {data} bytes");
        }
    });
}

/// The declared length of the response and the bytes of its body.
async fn request(listener: &TcpListener) -> Result<(Option<u64>, usize), BoxError> {
    let (address, pool) = (listener.local_addr()?, Pool::new(OPTIONS));
    let request = Request::builder().method(Method::GET).header(header::HOST, "x");
    let (head, body) = request.body(Empty::<Bytes>::new())?.into_parts();
    let response = pool.send(head, body, None, || TcpStream::connect(address)).await?;
    let (head, body) = response.into_parts();
    let has_body = !matches!(head.status.as_u16(), 101 | 204 | 304);
    let length = head.headers.get(header::CONTENT_LENGTH).filter(|_| has_body);
    let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
    Ok((length, body.collect().await?.to_bytes().len()))
}

/// Writes the bytes on the connections of one request: a request that may be sent again has more.
async fn respond(listener: &TcpListener, bytes: &[u8]) {
    let (mut app, _) = listener.accept().await.unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        if app.read_buf(&mut read).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let _ = app.write_all(bytes).await;
}
