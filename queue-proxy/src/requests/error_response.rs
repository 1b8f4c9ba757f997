//! RequestError: why a request gets a response of the sidecar's own, as an RFC 9457 problem.

use std::io;

use autoscaler::contract::{MISDIRECTED_HEADER, PROTOCOL, TUNNEL_PROTOCOL};
use autoscaler::routing::breaker::QueueFull;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use http_client::{InvalidResponse, NoFreeStream};
use proxy::gateway::MalformedRequest;
use proxy::gateway::grpc::{CallFailure, DeadlineExceeded};
use proxy::memory::budget::BudgetExceeded;
use proxy::timeouts::request_timer::TimeoutExceeded;

use crate::readiness::availability::Unavailable;

/// Media type of RFC 9457.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Seconds until a client should retry: about the start time of another pod.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request has no response of the app.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    #[error("the sidecar's memory budget of {} bytes is used up; raise its memory limit or run more pods", .0.bound)]
    MemoryFull(BudgetExceeded),
    #[error(
        "the sidecar's memory budget of {} bytes has no room for data that the app does not read; raise its memory \
         limit or run more pods", .0.bound
    )]
    UploadMemoryFull(BudgetExceeded),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error("the app refuses connections; check that it listens on the configured port")]
    AppUnreachable,
    #[error(transparent)]
    NoFreeStream(NoFreeStream),
    #[error("the app refuses the request again and again, and has not processed it")]
    Unprocessed,
    #[error("the app closed the connection before it responded")]
    AppClosed,
    #[error("the app reset the request, ended within the head of its response, or violated HTTP")]
    AppFailed(#[source] io::Error),
    #[error("the request is for another pod, which may have had this address before")]
    OtherPod,
    #[error("this pod's app uses HTTP; if it uses another protocol, annotate its pods with {PROTOCOL}: tcp")]
    AppUsesHttp,
    #[error("a tunnel request must upgrade to {TUNNEL_PROTOCOL}")]
    NotATunnelRequest,
    #[error("the limit of connections through activators is reached")]
    TooManyTunnels,
    #[error(transparent)]
    MalformedRequest(#[from] MalformedRequest),
    #[error("the request body ended early or violated HTTP")]
    RequestBodyFailed,
    #[error(transparent)]
    InvalidResponse(#[from] InvalidResponse),
    #[error(transparent)]
    TimedOut(#[from] TimeoutExceeded),
    #[error(transparent)]
    DeadlineExceeded(#[from] DeadlineExceeded),
}

impl From<BudgetExceeded> for RequestError {
    fn from(exceeded: BudgetExceeded) -> Self {
        Self::MemoryFull(exceeded)
    }
}

impl From<http_client::Error> for RequestError {
    fn from(error: http_client::Error) -> Self {
        match error {
            http_client::Error::Unreachable(_) => Self::AppUnreachable,
            http_client::Error::NoFreeStream(none) => Self::NoFreeStream(none),
            http_client::Error::Unprocessed(_) => Self::Unprocessed,
            http_client::Error::Unanswered(_) => Self::AppClosed,
            http_client::Error::Failed(error) => Self::AppFailed(error),
            http_client::Error::InvalidResponse(invalid) => Self::InvalidResponse(invalid),
            http_client::Error::RequestBody(_) => Self::RequestBodyFailed,
        }
    }
}

// === impl RequestError ===

impl RequestError {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unavailable(Unavailable::ProbeForOtherComponent) | Self::RequestBodyFailed => {
                StatusCode::BAD_REQUEST
            }
            Self::QueueFull(_)
            | Self::MemoryFull(_)
            | Self::UploadMemoryFull(_)
            | Self::Unavailable(_)
            | Self::TooManyTunnels
            | Self::Unprocessed
            | Self::NoFreeStream(NoFreeStream::QueueFull) => StatusCode::SERVICE_UNAVAILABLE,
            Self::OtherPod | Self::AppUsesHttp => StatusCode::MISDIRECTED_REQUEST,
            Self::NotATunnelRequest => StatusCode::UPGRADE_REQUIRED,
            Self::AppUnreachable | Self::AppClosed | Self::AppFailed(_) | Self::InvalidResponse(_) => {
                StatusCode::BAD_GATEWAY
            }
            Self::MalformedRequest(malformed) => malformed.status(),
            Self::TimedOut(_)
            | Self::DeadlineExceeded(_)
            | Self::NoFreeStream(NoFreeStream::TimedOut { .. } | NoFreeStream::NotPermitted { .. }) => {
                StatusCode::GATEWAY_TIMEOUT
            }
        }
    }

    /// What a gRPC client gets; `None` for what only activators and probes get.
    fn call_failure(&self) -> Option<CallFailure> {
        let failure = match self {
            Self::QueueFull(_)
            | Self::MemoryFull(_)
            | Self::Unavailable(_)
            | Self::AppUnreachable
            | Self::NoFreeStream(_)
            | Self::Unprocessed => CallFailure::refused,
            Self::UploadMemoryFull(_) => CallFailure::exhausted,
            Self::AppClosed => CallFailure::unavailable,
            Self::TimedOut(_) | Self::DeadlineExceeded(_) => CallFailure::timed_out,
            Self::AppFailed(error) => return Some(CallFailure::of_app(error, self.to_string())),
            Self::InvalidResponse(_) | Self::MalformedRequest(_) | Self::RequestBodyFailed => {
                CallFailure::internal
            }
            Self::OtherPod | Self::AppUsesHttp | Self::NotATunnelRequest | Self::TooManyTunnels => {
                return None;
            }
        };
        Some(failure(self.to_string()))
    }

    pub(crate) fn into_response(self) -> Response<Full<Bytes>> {
        let status = self.status();
        let problem = serde_json::json!({
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "detail": self.to_string(),
        });
        let mut response = Response::new(Full::new(Bytes::from(problem.to_string())));
        *response.status_mut() = status;
        if let Some(failure) = self.call_failure() {
            response.extensions_mut().insert(failure);
        }
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
        if matches!(self, Self::OtherPod) {
            response.headers_mut().insert(MISDIRECTED_HEADER, HeaderValue::from_static("pod"));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}
