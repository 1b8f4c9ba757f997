//! Forwarder: sends requests and probes to pods.
//!
//! Requests of HTTP/1 clients are forwarded by HTTP/1.1, those of HTTP/2 clients by h2c. Each
//! worker has a forwarder of its own, so that a request and its connections stay on one thread; one
//! more sends probes. Heads are already prepared for the next hop by the gateway.

mod pod_connections;

use std::io;
use std::net::SocketAddr;

use autoscaler::contract::{MISDIRECTED_HEADER, PROBE_HEADER, PROBE_QUEUE_PROXY};
use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty, Limited};
use http_client::{BoundConnection, InvalidResponse, NoFreeStream, ResponseBody};
use proxy::timeouts::request_body::RequestBody;
use proxy::timeouts::request_timer::TimeoutExceeded;

use crate::pods::connector::{connect, connect_http2};
use crate::pods::held_body::HeldBody;
use crate::pods::pod_tracker::PodTracker;
use pod_connections::PodConnections;

/// A larger response to a probe is not a queue-proxy's.
const PROBE_RESPONSE_BYTES: usize = 256;

/// The connections of one worker to all pods.
#[derive(Debug, Default)]
pub struct Forwarder {
    worker: usize,
    pods: PodConnections,
}

/// Why a request has no response of a pod that can be passed on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// No connection: nothing was sent, so the request can be sent to another pod.
    #[error("no connection to the pod: {0}")]
    Unreachable(#[source] io::Error),
    /// All streams to the pod are in use. Nothing was sent.
    #[error(transparent)]
    NoFreeStream(NoFreeStream),
    /// The connection ended before any byte of a response. The request is idempotent (RFC 9110,
    /// 9.2.2), so it can be sent to another pod.
    #[error("the pod closed the connection without a response: {0}")]
    Unanswered(#[source] io::Error),
    /// The pod has no port with the name that the Service's target port has. Nothing was sent.
    #[error("the pod has no port with the name of the Service's target port")]
    NoPort,
    /// Another pod has the address now. Its queue-proxy forwarded nothing, so the request can be
    /// sent to a pod of the workload while its body is whole.
    #[error("the pod's address belongs to another pod")]
    OtherPod,
    /// The app promised again and again not to have processed the request, or its body cannot be
    /// sent again.
    #[error("the app refuses the request, and has not processed it: {0}")]
    Unprocessed(#[source] io::Error),
    /// The request was sent, perhaps in part, and the connection ended before any byte of a
    /// response.
    #[error("the pod closed the connection: {0}")]
    Closed(#[source] io::Error),
    /// The request was sent, perhaps in part, and failed.
    #[error("the pod closed the connection or violated the protocol: {0}")]
    Failed(#[source] io::Error),
    #[error("the request's body was incomplete or violated the protocol")]
    RequestBodyFailed,
    /// The app exceeded a timeout of the workload. The request was sent.
    #[error(transparent)]
    TimedOut(#[from] TimeoutExceeded),
    /// The response is not valid HTTP.
    #[error(transparent)]
    BadResponse(#[from] InvalidResponse),
}

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No response.
    #[error(transparent)]
    Request(#[from] http_client::Error),
    /// An error response.
    #[error("the probe got {0}")]
    Status(http::StatusCode),
    /// A response that is not a queue-proxy's.
    #[error("the response is not a queue-proxy's")]
    NotAQueueProxy,
    /// The request could not be built.
    #[error(transparent)]
    Http(#[from] http::Error),
}

// === impl Forwarder ===

impl Forwarder {
    /// The forwarder of the worker with this number.
    pub fn for_worker(worker: usize) -> Self {
        Self { worker, ..Self::default() }
    }

    /// The number of the worker.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Sends a `client`'s request, prepared for the next hop, to this pod at `to`; completes with
    /// the response head.
    ///
    /// # Errors
    /// See [`ForwardError`]. After [`ForwardError::Unreachable`] and [`ForwardError::Unanswered`],
    /// `body` is whole and the request can be sent to another pod.
    pub async fn send(
        &self,
        pod: &PodTracker,
        to: SocketAddr,
        head: &Parts,
        body: &HeldBody<RequestBody>,
        client: &BoundConnection,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        let connections = self.pods.to(to, pod.has_queue_proxy());
        let sent = if head.version == Version::HTTP_2 {
            // Boxed: otherwise the future of every request would be larger.
            Box::pin(connections.http2.send(head, body.lend(), move || connect_http2(to))).await
        } else {
            connections.http1.send(head, body.lend(), Some(client), || connect(to)).await
        };
        let response = sent.map_err(|error| match error {
            http_client::Error::Unreachable(cause) if body.is_whole() => ForwardError::Unreachable(cause),
            http_client::Error::Unanswered(cause) if head.method.is_idempotent() && body.is_whole() => {
                ForwardError::Unanswered(cause)
            }
            http_client::Error::Unreachable(cause) | http_client::Error::Unanswered(cause) => {
                ForwardError::Closed(cause)
            }
            http_client::Error::Failed(cause) => ForwardError::Failed(cause),
            http_client::Error::Unprocessed(cause) => ForwardError::Unprocessed(cause),
            http_client::Error::NoFreeStream(none) => ForwardError::NoFreeStream(none),
            http_client::Error::InvalidResponse(bad) => ForwardError::BadResponse(bad),
            http_client::Error::RequestBody(_) => ForwardError::RequestBodyFailed,
        })?;
        // An app may respond as it likes.
        if pod.has_queue_proxy() && is_misdirected(&response) {
            Err(ForwardError::OtherPod)
        } else {
            Ok(response)
        }
    }

    /// Probes the queue-proxy of `pod` at `address`. It responds once its app is ready, so this may
    /// take long.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub async fn probe(&self, pod: &PodTracker, address: SocketAddr) -> Result<(), ProbeError> {
        let probe =
            Request::get("/").header("host", address.to_string()).header(PROBE_HEADER, PROBE_QUEUE_PROXY);
        let (mut head, body) = probe.body(Empty::<Bytes>::new())?.into_parts();
        pod.mark(&mut head.headers);
        let response = self.pods.to(address, true).http1.send(head, body, None, || connect(address)).await?;
        if !response.status().is_success() {
            return Err(ProbeError::Status(response.status()));
        }
        // Read to the end, so that the connection can be reused.
        let body = Limited::new(response.into_body(), PROBE_RESPONSE_BYTES).collect().await;
        let body = body.map_err(|_| ProbeError::NotAQueueProxy)?.to_bytes();
        if body.trim_ascii() == PROBE_QUEUE_PROXY.as_bytes() {
            Ok(())
        } else {
            Err(ProbeError::NotAQueueProxy)
        }
    }
}

/// Whether a queue-proxy refused the request because it is for another pod.
pub(super) fn is_misdirected<B>(response: &Response<B>) -> bool {
    response.status() == StatusCode::MISDIRECTED_REQUEST
        && response.headers().contains_key(MISDIRECTED_HEADER)
}
