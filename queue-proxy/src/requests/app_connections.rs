//! AppConnections: one worker's connections to the app.
//!
//! HTTP/1.1 requests use a pool, HTTP/2 requests share a few connections. The app receives the
//! protocol version of its client, so gRPC works without configuration. Each worker has its own
//! connections, so that a request and its connection stay on one thread.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response, Version};
use http_client::{BoundConnection, Http2Options, Http2Pool, Pool, PoolOptions, ResponseBody};
use proxy::timeouts::request_body::RequestBody;
use tokio::net::TcpStream;

use super::error_response::RequestError;
use crate::app_connection::PodAddresses;

/// Servers close idle connections after 2 s (gunicorn) or 5 s (Node.js), and a request sent at that
/// moment may be lost. A new connection over loopback costs about 50 µs.
const POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_millis(1500), max_idle: 1024 };
/// Servers announce the close of an HTTP/2 connection, so the idle time need not be shorter than
/// theirs. The app is on the same host, and needs no PING.
const HTTP2: Http2Options = Http2Options {
    ping: None,
    idle_timeout: Duration::from_secs(60),
    stream_timeout: Duration::from_secs(10),
    upload_window: Some(Http2Pool::LEAST_WINDOW),
};

/// A client of the app.
#[derive(Debug)]
pub(crate) struct AppConnections {
    app: SocketAddr,
    pod: PodAddresses,
    http1: Pool,
    http2: Http2Pool,
}

// === impl AppConnections ===

impl AppConnections {
    pub(crate) fn new(app: SocketAddr, pod: PodAddresses) -> Self {
        Self { app, pod, http1: Pool::new(POOL), http2: Http2Pool::new(HTTP2) }
    }

    /// Sends `request` of a `client` and returns after the head of the response.
    pub(crate) async fn send(
        &self,
        request: Box<Request<RequestBody>>,
        client: &BoundConnection,
    ) -> Result<Response<ResponseBody>, RequestError> {
        let connect = || connect(self.app, self.pod);
        let (head, body) = request.into_parts();
        let sent = if head.version == Version::HTTP_2 {
            // Boxed to keep this future small for HTTP/1.1 requests.
            Box::pin(self.http2.send(head, body, connect)).await
        } else {
            self.http1.send(head, body, Some(client), connect).await
        };
        sent.map_err(|error| {
            tracing::debug!(%error, "request to the app failed");
            error.into()
        })
    }
}

async fn connect(app: SocketAddr, pod: PodAddresses) -> io::Result<TcpStream> {
    let stream = pod.connect(app).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
