//! Error responses: problem documents (RFC 9457) that name the workload. Every error becomes a
//! response here.

use autoscaler::Key;
use bytes::Bytes;
use component_base::clock::unix_millis;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use http_client::NoFreeStream;
use proxy::gateway::MalformedRequest;
use proxy::gateway::grpc::CallFailure;

use crate::pods::forwarder::ForwardError;
use crate::queue::rejection::Rejection;

/// `Retry-After` in seconds for a full queue or memory budget.
const QUEUE_RETRY_SECONDS: &str = "1";
/// `Retry-After` in seconds for pods that cannot start.
const START_RETRY_SECONDS: &str = "10";

/// Why a request has no response of its app.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// It was not held, or no longer.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Two HTTP implementations could interpret it differently.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// It probes another component: EndpointSlices lead to the wrong address.
    #[error("this is an activator; the probe is for another component")]
    MisroutedProbe,
    /// It was forwarded, and has no response that can be passed on.
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// The problem document of an error.
struct Problem {
    status: StatusCode,
    reason: &'static str,
    /// `Retry-After` in seconds, if a retry may succeed.
    retry: Option<&'static str>,
}

/// The response to a request that failed.
pub fn respond(error: &RequestError, workload: &Key) -> Response<Full<Bytes>> {
    let problem = problem(error);
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": problem.status.canonical_reason().unwrap_or_default(),
        "status": problem.status.as_u16(),
        "detail": error.to_string(),
        "reason": problem.reason,
        "workload": workload.to_string(),
    });
    if let (RequestError::Rejected(Rejection::CannotStart { failure }), Some(body)) =
        (error, body.as_object_mut())
    {
        body.insert("cause".to_owned(), failure.cause.as_str().into());
    }
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    response.extensions_mut().insert(call_failure(error));
    *response.status_mut() = problem.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    let until_end = || Some(HeaderValue::from(seconds_of_pause(error)?));
    if let Some(seconds) = problem.retry.map(HeaderValue::from_static).or_else(until_end) {
        headers.insert(RETRY_AFTER, seconds);
    }
    response
}

/// Whole seconds until the end of a pause, if it has one.
fn seconds_of_pause(error: &RequestError) -> Option<i64> {
    let RequestError::Rejected(Rejection::Paused(pause)) = error else { return None };
    Some(pause.end()?.saturating_sub(unix_millis()).saturating_add(999).div_euclid(1000).max(1))
}

/// The status and the reason of the error response.
pub(super) fn status_and_reason(error: &RequestError) -> (StatusCode, &'static str) {
    let Problem { status, reason, .. } = problem(error);
    (status, reason)
}

/// What a gRPC client gets.
fn call_failure(error: &RequestError) -> CallFailure {
    let failure = match error {
        RequestError::Rejected(Rejection::DeadlineExceeded(_))
        | RequestError::Forward(ForwardError::TimedOut(_)) => CallFailure::timed_out,
        RequestError::Rejected(Rejection::UploadMemoryFull { .. }) => CallFailure::exhausted,
        RequestError::Rejected(_)
        | RequestError::Forward(
            ForwardError::Unreachable(_)
            | ForwardError::NoFreeStream(_)
            | ForwardError::NoPort
            | ForwardError::OtherPod
            | ForwardError::Unprocessed(_),
        ) => CallFailure::refused,
        RequestError::Forward(ForwardError::Unanswered(_) | ForwardError::Closed(_)) => {
            CallFailure::unavailable
        }
        RequestError::Forward(ForwardError::Failed(cause)) => {
            return CallFailure::of_app(cause, error.to_string());
        }
        RequestError::Malformed(_)
        | RequestError::MisroutedProbe
        | RequestError::Forward(ForwardError::RequestBodyFailed | ForwardError::BadResponse(_)) => {
            CallFailure::internal
        }
    };
    failure(error.to_string())
}

fn problem(error: &RequestError) -> Problem {
    let (status, reason, retry) = match error {
        RequestError::Rejected(Rejection::QueueFull { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "QueueFull", Some(QUEUE_RETRY_SECONDS))
        }
        RequestError::Rejected(
            Rejection::ActivatorMemoryFull { .. } | Rejection::UploadMemoryFull { .. },
        ) => (StatusCode::SERVICE_UNAVAILABLE, "ActivatorMemoryFull", Some(QUEUE_RETRY_SECONDS)),
        RequestError::Rejected(Rejection::ActivatorStopping) => {
            (StatusCode::SERVICE_UNAVAILABLE, "ActivatorStopping", Some(QUEUE_RETRY_SECONDS))
        }
        RequestError::Rejected(Rejection::CannotStart { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "CannotStart", Some(START_RETRY_SECONDS))
        }
        RequestError::Rejected(Rejection::Paused(_)) => (StatusCode::SERVICE_UNAVAILABLE, "Paused", None),
        RequestError::Rejected(Rejection::WakeTimeout { .. }) => {
            (StatusCode::GATEWAY_TIMEOUT, "WakeTimeout", None)
        }
        RequestError::Rejected(Rejection::DeadlineExceeded(_)) => {
            (StatusCode::GATEWAY_TIMEOUT, "DeadlineExceeded", None)
        }
        RequestError::Rejected(Rejection::OwnRequest { .. }) => {
            (StatusCode::LOOP_DETECTED, "OwnRequest", None)
        }
        RequestError::Rejected(Rejection::WorkloadDeleted) => {
            (StatusCode::NOT_FOUND, "WorkloadDeleted", None)
        }
        RequestError::Malformed(malformed) => (malformed.status(), "MalformedRequest", None),
        RequestError::MisroutedProbe => (StatusCode::BAD_REQUEST, "MisroutedProbe", None),
        RequestError::Forward(
            ForwardError::Unreachable(_) | ForwardError::NoPort | ForwardError::OtherPod,
        ) => (StatusCode::BAD_GATEWAY, "PodUnreachable", None),
        RequestError::Forward(ForwardError::Unprocessed(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "AppRefused", Some(QUEUE_RETRY_SECONDS))
        }
        RequestError::Forward(ForwardError::NoFreeStream(NoFreeStream::QueueFull)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "PodStreamsFull", Some(QUEUE_RETRY_SECONDS))
        }
        RequestError::Forward(ForwardError::NoFreeStream(
            NoFreeStream::TimedOut { .. } | NoFreeStream::NotPermitted { .. },
        )) => (StatusCode::GATEWAY_TIMEOUT, "PodStreamsFull", None),
        RequestError::Forward(
            ForwardError::Unanswered(_) | ForwardError::Closed(_) | ForwardError::Failed(_),
        ) => (StatusCode::BAD_GATEWAY, "PodFailed", None),
        RequestError::Forward(ForwardError::TimedOut(_)) => {
            (StatusCode::GATEWAY_TIMEOUT, "RequestTimeout", None)
        }
        RequestError::Forward(ForwardError::BadResponse(_)) => (StatusCode::BAD_GATEWAY, "BadResponse", None),
        RequestError::Forward(ForwardError::RequestBodyFailed) => {
            (StatusCode::BAD_REQUEST, "RequestBodyFailed", None)
        }
    };
    Problem { status, reason, retry }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn problem_names_workload_reason_and_retry() {
        let error = Rejection::QueueFull { bound: 3 }.into();
        let response = respond(&error, &Key::new("shop", "web"));
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["workload"], "shop/web");
        assert_eq!(body["reason"], "QueueFull");
        assert_eq!(body["detail"], "the workload's queue is full: 3 requests are waiting for a pod");
    }
}
