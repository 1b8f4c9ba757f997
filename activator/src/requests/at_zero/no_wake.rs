//! The response to a request that does not wake a workload at zero.
//!
//! No cache may store it: the next request for its path may be one that wakes.

use autoscaler::settings::NoWakeResponse;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::{Either, Full};

use super::local_body::{LocalBody, NO_STORE};

/// `Retry-After` in seconds of a configured 503. A retry has the same result until another request
/// wakes the workload.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("60");

/// The response that the workload's setting describes.
pub(super) fn respond(configured: &NoWakeResponse) -> Response<LocalBody> {
    let text = Bytes::copy_from_slice(configured.text().as_bytes());
    let is_empty = text.is_empty();
    let mut response = Response::new(Either::Left(Full::new(text)));
    // All statuses within the setting's bounds are valid.
    let status = StatusCode::from_u16(configured.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, NO_STORE);
    if !is_empty {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn responds_as_configured_and_is_never_cached() {
        for (text, status, body, retry) in
            [("200 asleep", 200, "asleep", None), ("204", 204, "", None), ("503", 503, "", Some("60"))]
        {
            let response = respond(&NoWakeResponse::parse(text).unwrap());
            assert_eq!(response.status().as_u16(), status);
            assert_eq!(response.headers()["cache-control"], "no-store", "{text}");
            assert_eq!(response.headers().get(RETRY_AFTER).map(|v| v.to_str().unwrap()), retry, "{text}");
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body, "{text}");
        }
    }
}
