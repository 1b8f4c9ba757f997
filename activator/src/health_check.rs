//! What a health check gets for a workload that sleeps.
//!
//! It must neither wake the workload nor be held until somebody else does, and it must not fail: a load balancer that took
//! the workload out would send it no request any more, so that nothing ever woke it. And "yes" is the truth, for a request
//! would be served. (A workload with pods is asked itself; see [`Handler`](crate::handler::Handler).)
//!
//! Whoever asks by gRPC's own method reads the answer only as that method gives it.

use std::convert::Infallible;
use std::future::{Ready, ready};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::WithTrailers;
use http_body_util::{BodyExt, Either, Full};

/// A body of our own, seldom with trailers.
pub type OwnBody = Either<Full<Bytes>, Box<WithTrailers<Full<Bytes>, Ready<Trailers>>>>;

type Trailers = Option<Result<HeaderMap, Infallible>>;

/// The one method of grpc.health.v1 with a single answer. Who asks for a stream is told by plain HTTP that there is none.
const GRPC_METHOD: &str = "/grpc.health.v1.Health/Check";
const GRPC: &str = "application/grpc";
const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Not compressed, two bytes long: field 1 (status) is 1 (SERVING).
const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];

/// Says yes.
pub fn yes<B>(request: &Request<B>) -> Response<OwnBody> {
    let kind = request.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    if request.uri().path() == GRPC_METHOD && kind.starts_with(GRPC.as_bytes()) {
        return yes_by_grpc();
    }
    Response::new(Either::Left(Full::new(Bytes::from_static(b"ok"))))
}

fn yes_by_grpc() -> Response<OwnBody> {
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
        let body = yes(&request).into_body().collect().await.unwrap();
        let trailers = body.trailers().cloned();
        (body.to_bytes(), trailers)
    }

    #[tokio::test]
    async fn grpc_is_answered_by_grpc_and_all_else_by_http() {
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
