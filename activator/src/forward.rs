//! Forwarder: sends requests and probes to pods.
//!
//! HTTP/1 callers reach pods by HTTP/1.1, HTTP/2 callers by h2c. Each worker has a Forwarder, so that a request and its
//! connection never leave their thread, and one more probes. Heads come here ready for the next hop (`proxy::gateway`).

mod pod_connections;
mod upgrade;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::{PROBE_HEADER, PROBE_QUEUE_PROXY};
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty, Limited};
use http_client::InvalidResponse;
use http_client::{PoolOptions, ResponseBody};
use hyper::body::Incoming;

use crate::held_body::HeldBody;
use crate::pod_connector::connect;
use pod_connections::PodConnections;

pub use upgrade::Upgrade;

/// Shorter than the pods keep an idle connection, so that none is used while it is being closed.
const POOL: PoolOptions = PoolOptions { idle: Duration::from_secs(15), most_idle: 1024 };
/// How often a pod with open HTTP/2 streams is asked whether it is there.
const PING: Duration = Duration::from_secs(10);
/// More than this is no answer to a probe.
const PROBE_ANSWER_BYTES: usize = 256;

/// The connections of one worker to all pods.
#[derive(Debug, Default)]
pub struct Forwarder {
    worker: usize,
    pods: PodConnections,
}

/// Why a request got no response of a pod that could be passed on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection to it: nothing was sent, so another pod may be asked.
    #[error("no connection to the pod: {0}")]
    Unreachable(#[source] io::Error),
    /// The connection ended before anything of a response came, and the request may be sent twice (RFC 9110, 9.2.2): another
    /// pod may be asked.
    #[error("the pod closed the connection without an answer: {0}")]
    Unanswered(#[source] io::Error),
    /// The request was sent, perhaps in part, and failed.
    #[error("the pod closed the connection or broke the protocol: {0}")]
    Failed(#[source] io::Error),
    /// The caller's own body failed.
    #[error("the request's body was cut short or broke the protocol")]
    CallerFailed,
    /// The pod answered with what is no answer.
    #[error(transparent)]
    BadResponse(#[from] InvalidResponse),
}

/// Why a pod is not known to take requests.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It does not answer.
    #[error(transparent)]
    Request(#[from] http_client::Error),
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
    /// That of the worker with this number.
    pub fn of_worker(worker: usize) -> Self {
        Self { worker, ..Self::default() }
    }

    /// The number of its worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Sends a request, made ready for the next hop, to the pod at `to`; ends with the response's head.
    ///
    /// # Errors
    /// See [`Error`]. After [`Error::Unreachable`] and [`Error::Unanswered`], `body` is whole and the request may be sent to
    /// another pod.
    pub async fn send(
        &self,
        to: SocketAddr,
        head: &Parts,
        body: &HeldBody<Incoming>,
    ) -> Result<Response<ResponseBody>, Error> {
        let pod = self.pods.to(to);
        let sent = if head.version == Version::HTTP_2 {
            let request = Request::from_parts(head.clone(), body.lend());
            // Boxed, as all that would make the room for each request larger.
            Box::pin(pod.http2.send(request, || connect(to))).await
        } else {
            pod.http1.send(head, body.lend(), || connect(to)).await
        };
        sent.map_err(|error| match error {
            http_client::Error::Unreachable(cause) if body.is_whole() => Error::Unreachable(cause),
            http_client::Error::Unanswered(cause) if head.method.is_idempotent() && body.is_whole() => {
                Error::Unanswered(cause)
            }
            http_client::Error::Unreachable(cause)
            | http_client::Error::Unanswered(cause)
            | http_client::Error::Failed(cause) => Error::Failed(cause),
            http_client::Error::InvalidResponse(bad) => Error::BadResponse(bad),
            http_client::Error::RequestBody(_) => Error::CallerFailed,
        })
    }

    /// Asks the queue-proxy at `address` whether its app takes requests. It answers when the app does, so this may last.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub async fn probe(&self, address: SocketAddr) -> Result<(), ProbeError> {
        let probe =
            Request::get("/").header("host", address.to_string()).header(PROBE_HEADER, PROBE_QUEUE_PROXY);
        let (head, body) = probe.body(Empty::<Bytes>::new())?.into_parts();
        let response = self.pods.to(address).http1.send(head, body, || connect(address)).await?;
        if !response.status().is_success() {
            return Err(ProbeError::Status(response.status()));
        }
        // Read to its end, or the connection could not be used again.
        let body = Limited::new(response.into_body(), PROBE_ANSWER_BYTES).collect().await;
        let body = body.map_err(|_| ProbeError::Stranger)?.to_bytes();
        if body.trim_ascii() == PROBE_QUEUE_PROXY.as_bytes() { Ok(()) } else { Err(ProbeError::Stranger) }
    }
}
