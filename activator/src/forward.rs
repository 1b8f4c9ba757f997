//! Forwarder: sends requests and probes to pods.
//!
//! Both go through the same pool of kept-alive connections, so the connection on which a pod answered its probe carries the
//! first request. HTTP/1 callers reach pods by HTTP/1.1, HTTP/2 callers by h2c. Hop-by-hop headers stay on their hop
//! (RFC 9110, 7.6.1), except those of an upgrade, whose connection becomes a tunnel.

mod headers;
mod upgrade;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use chassis::server::Connection;
use http::request::Parts;
use http::{Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt, Either, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::held_body::{HeldBody, LentBody};
use crate::pod_connector::PodConnector;
use autoscaler::contract::{PROBE_HEADER, PROBE_QUEUE_PROXY};

pub use upgrade::Upgrade;

/// Shorter than the pods keep an idle connection, so that none is used while it is being closed.
const POOL_IDLE: Duration = Duration::from_secs(15);
/// Idle connections kept to one pod.
const POOL_SIZE: usize = 100;
/// More than this is no answer to a probe.
const PROBE_ANSWER_BYTES: usize = 256;

type UpstreamBody = Either<Empty<Bytes>, LentBody<Incoming>>;
type PodClient = Client<PodConnector, UpstreamBody>;

/// The clients of all pods. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Forwarder {
    http1: PodClient,
    http2: PodClient,
}

/// Why a pod gave no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to it: nothing was sent, so another pod may be asked.
    #[error("no connection to the pod: {0}")]
    Unreachable(#[source] legacy::Error),
    /// The request was sent, perhaps in part, and failed.
    #[error("the pod failed the request: {0}")]
    Failed(#[source] legacy::Error),
    /// The request has no form in which it could be forwarded.
    #[error("the request cannot be forwarded: {0}")]
    Unforwardable(#[from] http::Error),
    /// A tunnel to anywhere is a forward proxy's business.
    #[error("CONNECT is not forwarded")]
    Connect,
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
        let client = |http2| {
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(POOL_IDLE)
                .pool_max_idle_per_host(POOL_SIZE)
                .http2_only(http2)
                .build(PodConnector)
        };
        Self { http1: client(false), http2: client(true) }
    }

    /// Sends a request to the pod at `to`; ends with the response's head.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Unreachable`], `body` is whole and the request may be sent to another pod.
    pub async fn send(
        &self,
        to: SocketAddr,
        head: &Parts,
        body: &HeldBody<Incoming>,
    ) -> Result<Response<Incoming>, Error> {
        if head.method == Method::CONNECT {
            return Err(Error::Connect);
        }
        let http2 = head.version == Version::HTTP_2;
        let mut request = Request::new(Either::Right(body.lend()));
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = uri(to, &head.uri)?;
        *request.version_mut() = if http2 { Version::HTTP_2 } else { Version::HTTP_11 };
        *request.headers_mut() =
            headers::to_pod(head, head.extensions.get::<Connection>().map(|c| c.peer.ip()));
        let client = if http2 { &self.http2 } else { &self.http1 };
        let mut response = client.request(request).await.map_err(|error| {
            let unsent = error.is_connect() && body.is_whole();
            if unsent { Error::Unreachable(error) } else { Error::Failed(error) }
        })?;
        headers::strip_response(&mut response);
        Ok(response)
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
