//! Upstream: the connections to the app.
//!
//! HTTP/1.1 requests go out over a pool, HTTP/2 requests over one shared connection: an app behind the sidecar sees the
//! protocol that its caller speaks, so gRPC works and nothing has to be configured.

use std::net::SocketAddr;
use std::time::Duration;

use http::uri::Authority;
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::error_response::Refusal;

/// How long an idle connection is kept. Servers close theirs after 2 s (gunicorn) or 5 s (Node.js), and a request that
/// meets the closing is lost; a new connection over loopback costs some 50 µs.
const IDLE: Duration = Duration::from_millis(1500);

/// The app, as a place to send requests to.
#[derive(Debug)]
pub(crate) struct Upstream {
    authority: Authority,
    http1: Client<HttpConnector, Incoming>,
    http2: SharedConnection,
}

/// One HTTP/2 connection, made when it is needed and made anew when it has ended.
#[derive(Debug)]
struct SharedConnection {
    address: SocketAddr,
    sender: Mutex<Option<SendRequest<Incoming>>>,
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn new(address: SocketAddr) -> Result<Self, http::Error> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let http1 = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .set_host(false)
            .build(connector);
        let http2 = SharedConnection { address, sender: Mutex::new(None) };
        Ok(Self { authority: Authority::try_from(address.to_string())?, http1, http2 })
    }

    /// What the pool knows the app by; HTTP/1.1 requests need it in their URI.
    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) async fn send(&self, request: Request<Incoming>) -> Result<Response<Incoming>, Refusal> {
        match request.version() {
            Version::HTTP_2 => self.http2.send(request).await,
            _ => self.http1.request(request).await.map_err(|error| {
                tracing::debug!(%error, "HTTP/1.1 request failed");
                if error.is_connect() { Refusal::AppUnreachable } else { Refusal::AppFailed }
            }),
        }
    }
}

// === impl SharedConnection ===

impl SharedConnection {
    async fn send(&self, request: Request<Incoming>) -> Result<Response<Incoming>, Refusal> {
        let mut sender = self.sender().await?;
        sender.send_request(request).await.map_err(|error| {
            tracing::debug!(%error, "HTTP/2 request failed");
            Refusal::AppFailed
        })
    }

    async fn sender(&self) -> Result<SendRequest<Incoming>, Refusal> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let sender = self.connect().await?;
        *current = Some(sender.clone());
        Ok(sender)
    }

    async fn connect(&self) -> Result<SendRequest<Incoming>, Refusal> {
        let stream = TcpStream::connect(self.address).await.map_err(|_| Refusal::AppUnreachable)?;
        stream.set_nodelay(true).map_err(|_| Refusal::AppUnreachable)?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::AppFailed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP/2 connection to the app ended");
            }
        });
        Ok(sender)
    }
}
