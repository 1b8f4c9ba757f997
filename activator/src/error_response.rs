//! The only place where an error becomes an HTTP response: a problem document (RFC 9457) that names the workload.

use autoscaler::Key;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use proxy::gateway::MalformedRequest;

use crate::forward;
use crate::workload_throttler::Refused;

/// Seconds after which a caller that was turned away may find room.
const ROOM_SECONDS: &str = "1";
/// Seconds after which pods that could not start may have been helped.
const HELP_SECONDS: &str = "10";

/// Why a request got no response of its app.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not let in.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Peers could read it differently.
    #[error(transparent)]
    Malformed(#[from] MalformedRequest),
    /// It asks for a process that is not here: slices lead the wrong way.
    #[error("this is an activator and answers no probe for anything else")]
    OtherProbe,
    /// It was let in, and got no response that could be passed on.
    #[error(transparent)]
    Forward(#[from] forward::Error),
}

/// What a caller is told of an error.
struct Problem {
    status: StatusCode,
    reason: &'static str,
    /// Seconds until another try may do better.
    retry: Option<&'static str>,
}

/// The response to a request that failed.
pub fn respond(error: &Error, workload: &Key) -> Response<Full<Bytes>> {
    let problem = problem(error);
    let mut body = serde_json::json!({
        "type": "about:blank",
        "title": problem.status.canonical_reason().unwrap_or_default(),
        "status": problem.status.as_u16(),
        "detail": error.to_string(),
        "reason": problem.reason,
        "workload": workload.to_string(),
    });
    // What Kubernetes says of it is for those who may read the status, not for every caller.
    if let (Error::Refused(Refused::CannotStart { cause }), Some(body)) = (error, body.as_object_mut()) {
        body.insert("cause".to_owned(), cause.as_str().into());
    }
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = problem.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(seconds) = problem.retry {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    response
}

fn problem(error: &Error) -> Problem {
    let (status, reason, retry) = match error {
        Error::Refused(Refused::QueueFull { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "QueueFull", Some(ROOM_SECONDS))
        }
        Error::Refused(Refused::TooManyHeld { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "TooManyHeld", Some(ROOM_SECONDS))
        }
        Error::Refused(Refused::TooMuchHeld { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "TooMuchHeld", Some(ROOM_SECONDS))
        }
        Error::Refused(Refused::CannotStart { .. }) => {
            (StatusCode::SERVICE_UNAVAILABLE, "CannotStart", Some(HELP_SECONDS))
        }
        Error::Refused(Refused::Paused) => (StatusCode::SERVICE_UNAVAILABLE, "Paused", None),
        Error::Refused(Refused::Timeout { .. }) => (StatusCode::GATEWAY_TIMEOUT, "WakeTimeout", None),
        Error::Refused(Refused::Gone) => (StatusCode::NOT_FOUND, "UnknownWorkload", None),
        Error::Malformed(malformed) => (malformed.status(), "Malformed", None),
        Error::OtherProbe => (StatusCode::BAD_REQUEST, "OtherProbe", None),
        Error::Forward(forward::Error::Unreachable(_)) => (StatusCode::BAD_GATEWAY, "PodUnreachable", None),
        Error::Forward(forward::Error::Unanswered(_) | forward::Error::Failed(_)) => {
            (StatusCode::BAD_GATEWAY, "PodFailed", None)
        }
        Error::Forward(forward::Error::BadResponse(_)) => (StatusCode::BAD_GATEWAY, "BadResponse", None),
        Error::Forward(forward::Error::CallerFailed) => (StatusCode::BAD_REQUEST, "CallerFailed", None),
    };
    Problem { status, reason, retry }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_problem_names_the_workload_and_what_to_do() {
        let error = Refused::QueueFull { bound: 3 }.into();
        let response = respond(&error, &Key::new("shop", "web"));
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["workload"], "shop/web");
        assert_eq!(body["reason"], "QueueFull");
        assert_eq!(body["detail"], "3 requests are waiting for this workload already");
    }
}
