//! Forwarder: sends requests and probes to pods.
//!
//! HTTP/1 callers reach pods by HTTP/1.1, HTTP/2 callers by h2c. Probes go through the same pool of kept-alive connections as
//! HTTP/1.1 requests do, so the connection on which a pod answered its probe carries the first of them. Heads come here
//! ready for the next hop (`chassis::gateway`).

mod http2;
mod upgrade;

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::{PROBE_HEADER, PROBE_QUEUE_PROXY};
use bytes::Bytes;
use chassis::gateway::BadResponse;
use http::request::Parts;
use http::{Request, Response, Uri, Version};
use http_body_util::{BodyExt, Either, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::held_body::{HeldBody, LentBody};
use crate::pod_connector::PodConnector;
use http2::{Failure, Http2Connections};

pub use upgrade::Upgrade;

/// Shorter than the pods keep an idle connection, so that none is used while it is being closed.
const POOL_IDLE: Duration = Duration::from_secs(15);
/// Idle connections kept to one pod.
const POOL_SIZE: usize = 100;
/// More than this is no answer to a probe.
const PROBE_ANSWER_BYTES: usize = 256;

type UpstreamBody = Either<Empty<Bytes>, LentBody<Incoming>>;
type PodClient = Client<PodConnector, UpstreamBody>;
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The clients of all pods. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Forwarder {
    http1: PodClient,
    http2: Http2Connections,
}

/// Why a request got no response of a pod that could be passed on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to it: nothing was sent, so another pod may be asked.
    #[error("no connection to the pod: {0}")]
    Unreachable(#[source] Cause),
    /// The request was sent, perhaps in part, and failed.
    #[error("the pod closed the connection or broke the protocol: {0}")]
    Failed(#[source] Cause),
    /// The caller's own body failed.
    #[error("the request's body was cut short or broke the protocol")]
    CallerFailed,
    /// The pod answered with what is no answer.
    #[error(transparent)]
    BadResponse(#[from] BadResponse),
    /// The request has no form in which it could be forwarded.
    #[error("the request cannot be forwarded: {0}")]
    Unforwardable(#[from] http::Error),
}

/// Why a pod is not known to take requests.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It does not answer.
    #[error(transparent)]
    Request(#[from] legacy::Error),
    /// It answers with something else.
    #[error("answered {0}")]
    Status(http::StatusCode),
    /// It answers, but is not a queue-proxy.
    #[error("is not a queue-proxy")]
    Stranger,
    /// The probe cannot be built.
    #[error(transparent)]
    Http(#[from] http::Error),
}

// === impl Forwarder ===

impl Forwarder {
    /// No connections yet.
    pub fn new() -> Self {
        let http1 = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE)
            .pool_max_idle_per_host(POOL_SIZE)
            .build(PodConnector);
        Self { http1, http2: Http2Connections::default() }
    }

    /// Sends a request, made ready for the next hop, to the pod at `to`; ends with the response's head.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Unreachable`], `body` is whole and the request may be sent to another pod.
    pub async fn send(
        &self,
        to: SocketAddr,
        head: &Parts,
        body: &HeldBody<Incoming>,
    ) -> Result<Response<Incoming>, Error> {
        let mut request = Request::new(Either::Right(body.lend()));
        *request.method_mut() = head.method.clone();
        *request.version_mut() = head.version;
        *request.headers_mut() = head.headers.clone();
        let sent = if head.version == Version::HTTP_2 {
            *request.uri_mut() = head.uri.clone();
            self.http2.send(to, request).await
        } else {
            // The client knows its pools by the authority, and sends the path alone.
            *request.uri_mut() = uri(to, &head.uri)?;
            self.http1.request(request).await.map_err(Failure::of_client)
        };
        sent.map_err(|failure| match failure {
            Failure::Connect(cause) if body.is_whole() => Error::Unreachable(cause),
            Failure::Connect(cause) | Failure::Sent(cause) => Error::Failed(cause),
            Failure::Caller => Error::CallerFailed,
        })
    }

    /// Asks the queue-proxy at `address` whether its app takes requests. It answers when the app does, so this may last.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub async fn probe(&self, address: SocketAddr) -> Result<(), ProbeError> {
        let request = Request::get(uri(address, &Uri::from_static("/"))?)
            .header(PROBE_HEADER, PROBE_QUEUE_PROXY)
            .body(Either::Left(Empty::new()))?;
        let response = self.http1.request(request).await?;
        if !response.status().is_success() {
            return Err(ProbeError::Status(response.status()));
        }
        // Read to its end, or the connection could not be used again.
        let body = Limited::new(response.into_body(), PROBE_ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| ProbeError::Stranger)?.to_bytes();
        if body.trim_ascii() == PROBE_QUEUE_PROXY.as_bytes() { Ok(()) } else { Err(ProbeError::Stranger) }
    }
}

impl Default for Forwarder {
    fn default() -> Self {
        Self::new()
    }
}

fn uri(to: SocketAddr, asked: &Uri) -> Result<Uri, http::Error> {
    let path = asked.path_and_query().map_or("/", |path| path.as_str());
    Uri::builder().scheme("http").authority(to.to_string()).path_and_query(path).build()
}
