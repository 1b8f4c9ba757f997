//! Responses of the metrics API, with the headers that all of them share.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

pub type ApiResponse = Response<Full<Bytes>>;

pub(super) fn json(status: StatusCode, body: &impl Serialize) -> ApiResponse {
    match serde_json::to_vec(body) {
        Ok(body) => response(status, HeaderValue::from_static("application/json"), Bytes::from(body)),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

pub(super) fn text(status: StatusCode, body: String) -> ApiResponse {
    response(status, HeaderValue::from_static("text/plain; charset=utf-8"), Bytes::from(body))
}

pub(super) fn response(status: StatusCode, content_type: HeaderValue, body: Bytes) -> ApiResponse {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, content_type);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(super) fn with_vary(mut response: ApiResponse) -> ApiResponse {
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept"));
    response
}
