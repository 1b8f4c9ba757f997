//! Requests for server-sent events to a workload that keeps them alive.
//!
//! ```text
//! a pod responds within five seconds ────────► its response, as for any request
//! there is no pod ─────────────┬─► head, comments ─┬─► the pod's stream
//! no response for five seconds ┘                   └─► an error event
//! ```
//!
//! Where there is a pod, the head waits, because the client then gets the status and the head of
//! the app. It does not wait for ever: the pods may be busy, or a pod that is gone may still be
//! known.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::ACCEPT_ENCODING;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Either};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use tokio::time::sleep_until;

use super::HttpHandler;
use crate::pods::forwarder::Forwarder;
use crate::requests::at_zero::held_stream::{self, COMMENT_INTERVAL, ErrorEvent};
use crate::requests::error_response::{self, RequestError};
use crate::requests::pending_request::{HandlerBody, PendingRequest, PodBody};

/// Bytes that an error event has of a pod's response.
const EXCERPT_BYTES: usize = 4 << 10;
/// The reason of an error event with the response of a pod.
const NO_STREAM: &str = "NoStream";

// === impl HttpHandler ===

impl HttpHandler {
    /// Whether the request is kept alive while it is held.
    pub(super) fn keeps_alive<B>(&self, request: &Request<B>) -> bool {
        self.workload.settings().sse_keep_alive && held_stream::is_requested(request)
    }

    /// Sends the head of the response before there is a pod, or if none has responded for long.
    pub(super) async fn serve_stream(
        self: &Arc<Self>,
        request: Box<Request<IncomingBody>>,
        addresses: &Arc<ConnectionAddresses>,
        forwarder: &Arc<Forwarder>,
    ) -> Response<HandlerBody> {
        let mut request = match self.admit(request, addresses, forwarder.worker()) {
            Ok(request) => request,
            Err(error) => return self.respond(Err(error)),
        };
        // A head that is sent first names no coding.
        request.head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let patience = if self.workload.any_pod().is_some() { COMMENT_INTERVAL } else { Duration::ZERO };
        let head_at = request.received + patience;
        let mut served = Box::pin(self.clone().serve_by(forwarder.clone(), request));
        tokio::select! {
            biased;
            result = &mut served => self.respond(result),
            () = sleep_until(head_at) => {
                let stream = held_stream::respond(self.clone().stream_of_pod(served));
                stream.map(|body| Either::Left(Either::Right(body)))
            }
        }
    }

    async fn serve_by(
        self: Arc<Self>,
        forwarder: Arc<Forwarder>,
        request: Box<PendingRequest>,
    ) -> Result<Response<HandlerBody>, RequestError> {
        self.serve(request, &forwarder).await
    }

    /// The body for a head that was sent. The response counts with its own status.
    async fn stream_of_pod(
        self: Arc<Self>,
        served: impl Future<Output = Result<Response<HandlerBody>, RequestError>>,
    ) -> Result<PodBody, ErrorEvent> {
        match served.await {
            Ok(response) => {
                self.workload.metrics().answered(response.status());
                into_stream(response).await
            }
            Err(error) => {
                tracing::debug!(workload = %self.workload.key(), %error, "request failed");
                let (status, reason) = error_response::status_and_reason(&error);
                self.workload.metrics().answered(status);
                Err(ErrorEvent::new(status, reason, &error.to_string()))
            }
        }
    }
}

/// The body of a stream. Of any other response, the error with the begin of its body.
async fn into_stream(response: Response<HandlerBody>) -> Result<PodBody, ErrorEvent> {
    let (head, body) = response.into_parts();
    match body {
        Either::Left(Either::Left(mut body)) if held_stream::is_stream(&head) => {
            // A client that reads no comment keeps the server from polling it.
            body.share();
            Ok(body)
        }
        body => Err(ErrorEvent::new(head.status, NO_STREAM, &excerpt(body).await)),
    }
}

async fn excerpt(mut body: HandlerBody) -> String {
    let mut text = BytesMut::new();
    while text.len() < EXCERPT_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        let data = frame.into_data().unwrap_or_default();
        text.extend_from_slice(data.get(..EXCERPT_BYTES - text.len()).unwrap_or(&data));
    }
    String::from_utf8_lossy(&text).into_owned()
}
