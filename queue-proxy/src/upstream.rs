//! Upstream: the connections to the app.
//!
//! HTTP/1.1 requests go out over a pool, HTTP/2 requests over one shared connection: an app behind the sidecar sees the
//! protocol that its caller speaks, so gRPC works and nothing has to be configured.

mod pool;
mod shared_connection;

use std::net::SocketAddr;

use http::{Request, Response, Version};
use hyper::body::Incoming;
use pool::Pool;
use shared_connection::SharedConnection;

pub(crate) use pool::Lease;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;

/// The app, as a place to send requests to.
#[derive(Debug)]
pub(crate) struct Upstream {
    http1: Pool,
    http2: SharedConnection,
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(app: SocketAddr) -> Self {
        Self { http1: Pool::new(app), http2: SharedConnection::new(app) }
    }

    /// The head of the app's response, and the connection to be kept until its body has ended.
    pub(crate) async fn send(
        &self,
        request: Box<Request<CallerBody>>,
    ) -> Result<(Response<Incoming>, Option<Lease>), Refusal> {
        if request.version() == Version::HTTP_2 {
            return Ok((self.http2.send(request).await?, None));
        }
        let (response, lease) = self.http1.send(request).await?;
        Ok((response, Some(lease)))
    }
}
