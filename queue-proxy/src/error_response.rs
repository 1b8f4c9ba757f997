//! Refusal: every answer that is the sidecar's own and not the app's, and the one place where it becomes HTTP.

use autoscaler::breaker::QueueFull;
use autoscaler::contract::{PROTOCOL, TUNNEL_PROTOCOL};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use http_client::InvalidResponse;
use proxy::gateway::MalformedRequest;

use crate::timeouts::Timeout;

/// Media type of RFC 9457.
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Seconds after which a caller may try again: about what a pod more takes to come.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request does not get an answer of the app.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    QueueFull(#[from] QueueFull),
    #[error("the pod is shutting down")]
    Draining,
    #[error("the app does not take requests yet")]
    AppNotReady,
    #[error("the app says that it takes no requests now")]
    AppUnready,
    #[error("the app accepts no connection")]
    AppUnreachable,
    #[error("the app closed the connection or broke the protocol")]
    AppFailed,
    #[error("this is a queue-proxy and answers no probe for anything else")]
    OtherProbe,
    #[error(
        "this pod's app is spoken HTTP to; if it speaks something else, annotate its pods with {PROTOCOL}: tcp"
    )]
    SpeaksHttp,
    #[error("only an upgrade to {TUNNEL_PROTOCOL} opens a tunnel")]
    NoTunnel,
    #[error("as many connections as may come through activators are here")]
    TooManyTunnels,
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    #[error("the request's body was cut short or broke the protocol")]
    CallerFailed,
    #[error(transparent)]
    BadResponse(#[from] InvalidResponse),
    #[error(transparent)]
    TimedOut(#[from] Timeout),
}

impl From<http_client::Error> for Refusal {
    /// Why a request that was let through has no response.
    fn from(error: http_client::Error) -> Self {
        match error {
            http_client::Error::Unreachable(_) => Self::AppUnreachable,
            http_client::Error::Unanswered(_) | http_client::Error::Failed(_) => Self::AppFailed,
            http_client::Error::InvalidResponse(bad) => Self::BadResponse(bad),
            http_client::Error::RequestBody(_) => Self::CallerFailed,
        }
    }
}

// === impl Refusal ===

impl Refusal {
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::QueueFull(_)
            | Self::Draining
            | Self::AppNotReady
            | Self::AppUnready
            | Self::TooManyTunnels => StatusCode::SERVICE_UNAVAILABLE,
            Self::SpeaksHttp => StatusCode::MISDIRECTED_REQUEST,
            Self::NoTunnel => StatusCode::UPGRADE_REQUIRED,
            Self::AppUnreachable | Self::AppFailed | Self::BadResponse(_) => StatusCode::BAD_GATEWAY,
            Self::OtherProbe | Self::CallerFailed => StatusCode::BAD_REQUEST,
            Self::Malformed(malformed) => malformed.status(),
            Self::TimedOut(_) => StatusCode::GATEWAY_TIMEOUT,
        }
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
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}
