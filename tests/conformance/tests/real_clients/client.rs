//! An HTTP/1.1 and HTTP/2 client with streaming bodies in both directions.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response, Uri, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::app::Body;

/// The versions under test.
pub(crate) const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Sends a request on a new connection, which ends with the response.
pub(crate) async fn send(to: SocketAddr, version: Version, mut request: Request<Body>) -> Response<Incoming> {
    let stream = TcpStream::connect(to).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let stream = TokioIo::new(stream);
    if version == Version::HTTP_2 {
        *request.uri_mut() = Uri::builder()
            .scheme("http")
            .authority(to.to_string())
            .path_and_query(request.uri().path())
            .build()
            .unwrap();
        let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    } else {
        request.headers_mut().insert("host", to.to_string().parse().unwrap());
        let (mut sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await.unwrap()
    }
}

/// The next bytes of a body; `None` at its end.
pub(crate) async fn next(body: &mut Incoming) -> Option<Bytes> {
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.unwrap().into_data() {
            return Some(data);
        }
    }
    None
}

/// At least `count` bytes of a body. Panics if it ends earlier.
pub(crate) async fn take(body: &mut Incoming, count: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(next(body).await.expect("more of the body"));
    }
    taken
}
