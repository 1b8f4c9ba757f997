//! The response to a health check of a workload at zero.
//!
//! A health check must neither wake the workload nor be held. It must not fail either: a load
//! balancer that removed the workload would send no more requests, and nothing would wake it. A
//! success is correct, since a request would be served. The health checks of a workload with pods
//! are forwarded.
//!
//! A client of the gRPC health protocol gets a gRPC response.
//!
//! No cache may store the response: the next request with its path may be a client's.

use std::future::ready;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::{BodyExt, Either, Full};

use super::local_body::{LocalBody, NO_STORE};

/// The only unary method of grpc.health.v1. The streaming method gets a plain HTTP response, which
/// clients take as unimplemented.
const GRPC_METHOD: &str = "/grpc.health.v1.Health/Check";
const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Uncompressed, two bytes long: field 1 (status) is 1 (SERVING).
const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];

/// A successful response.
pub(super) fn healthy<B>(request: &Request<B>) -> Response<LocalBody> {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_grpc = request.uri().path() == GRPC_METHOD && kind.starts_with(GRPC.as_bytes());
    let mut response = if is_grpc { healthy_grpc() } else { healthy_http() };
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

fn healthy_http() -> Response<LocalBody> {
    Response::new(Either::Left(Full::new(Bytes::from_static(b"ok"))))
}

fn healthy_grpc() -> Response<LocalBody> {
    let trailers = HeaderMap::from_iter([(GRPC_STATUS, HeaderValue::from_static("0"))]);
    let body = Full::new(Bytes::from_static(&SERVING)).with_trailers(ready(Some(Ok(trailers))));
    let mut response = Response::new(Either::Right(Box::new(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(GRPC));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answer(path: &str, kind: &str) -> (Bytes, Option<HeaderMap>) {
        let request = Request::post(path).header(CONTENT_TYPE, kind).body(()).unwrap();
        let body = healthy(&request).into_body().collect().await.unwrap();
        let trailers = body.trailers().cloned();
        (body.to_bytes(), trailers)
    }

    #[test]
    fn response_must_not_be_cached() {
        for (path, kind) in [("/healthz", "text/plain"), (GRPC_METHOD, GRPC)] {
            let request = Request::get(path).header(CONTENT_TYPE, kind).body(()).unwrap();
            assert_eq!(healthy(&request).headers()["cache-control"], "no-store", "{path}");
        }
    }

    #[tokio::test]
    async fn answers_grpc_by_grpc_and_everything_else_by_http() {
        let (message, trailers) = answer(GRPC_METHOD, "application/grpc+proto").await;
        assert_eq!(
            (message.as_ref(), trailers.unwrap()["grpc-status"].as_bytes()),
            (SERVING.as_slice(), b"0".as_slice())
        );
        for (path, kind) in [("/healthz", GRPC), (GRPC_METHOD, "text/plain")] {
            assert_eq!(answer(path, kind).await, (Bytes::from("ok"), None));
        }
    }
}
