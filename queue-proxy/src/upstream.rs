//! Upstream: the connections to the app.
//!
//! HTTP/1.1 requests go out over a pool, HTTP/2 requests over one shared connection: an app behind the sidecar sees the
//! protocol that its caller speaks, so gRPC works and nothing has to be configured. Each worker has its own, so that a
//! request and its connection never leave their thread.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response, Version};
use http_client::{Http2Connection, Pool, PoolOptions, ResponseBody};
use tokio::net::TcpStream;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;

/// Servers close idle connections after 2 s (gunicorn) or 5 s (Node.js), and a request that meets the closing may be lost; a
/// new connection over loopback costs some 50 µs.
const POOL: PoolOptions = PoolOptions { idle_timeout: Duration::from_millis(1500), max_idle: 1024 };

/// The app, as a place to send requests to.
#[derive(Debug)]
pub(crate) struct Upstream {
    app: SocketAddr,
    http1: Pool,
    http2: Http2Connection<CallerBody>,
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(app: SocketAddr) -> Self {
        Self { app, http1: Pool::new(POOL), http2: Http2Connection::new(None) }
    }

    /// The head of the app's response; its body is still to come.
    pub(crate) async fn send(
        &self,
        request: Box<Request<CallerBody>>,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let connect = || connect(self.app);
        let sent = if request.version() == Version::HTTP_2 {
            // Boxed, as all that would make the room for each request larger.
            Box::pin(self.http2.send(*request, connect)).await
        } else {
            let (head, body) = request.into_parts();
            self.http1.send(head, body, connect).await
        };
        sent.map_err(|error| {
            tracing::debug!(%error, "a request failed");
            error.into()
        })
    }
}

async fn connect(app: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(app).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
