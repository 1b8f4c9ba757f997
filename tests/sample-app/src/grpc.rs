//! Calls of gRPC, without a schema: a message of the client, the same message back at once, and the
//! status in the trailers when the app has done its work. So a call is a stream that stays open for
//! as long as its client sets.

use std::convert::Infallible;

use anyhow::{Context, Result, bail, ensure};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");
const MESSAGE: &[u8] = b"hello";

/// Whether a request with these headers is a call.
pub(crate) fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE) == Some(&MEDIA_TYPE)
}

pub(crate) fn call(uri: Uri) -> Result<Request<Full<Bytes>>> {
    let body = Full::new(message());
    Ok(Request::post(uri).header(CONTENT_TYPE, MEDIA_TYPE).header(TE, "trailers").body(body)?)
}

/// A response that begins with the message of the call, and ends after `work`.
pub(crate) fn response(
    message: Bytes,
    work: impl Future<Output = ()> + Send + 'static,
) -> UnsyncBoxBody<Bytes, Infallible> {
    let message = stream::once(async { Ok::<_, Infallible>(Frame::data(message)) });
    let trailers = stream::once(async {
        work.await;
        Ok(Frame::trailers(HeaderMap::from_iter([(STATUS, OK)])))
    });
    StreamBody::new(stream::StreamExt::chain(message, trailers)).boxed_unsync()
}

/// Adds the header that each response to a call has.
pub(crate) fn add_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, MEDIA_TYPE);
}

/// Checks the body of a response to [`call`], and its trailers.
pub(crate) fn check(body: &Bytes, trailers: Option<&HeaderMap>) -> Result<()> {
    match trailers.context("no trailers")?.get(STATUS) {
        Some(status) if *status == OK => {}
        status => bail!("grpc-status {status:?}"),
    }
    ensure!(*body == message(), "{} bytes, which are not the message of the call", body.len());
    Ok(())
}

/// The message with its prefix: not compressed, and its length.
fn message() -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(MESSAGE.len()).unwrap_or(u32::MAX));
    framed.put_slice(MESSAGE);
    framed.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn response_is_complete_after_its_work_only() {
        let (done, work) = tokio::sync::oneshot::channel::<()>();
        let mut body = response(message(), async { drop(work.await) });
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(check(&first, None).is_err());
        done.send(()).unwrap();
        let trailers = body.frame().await.unwrap().unwrap().into_trailers().unwrap();
        check(&first, Some(&trailers)).unwrap();
        assert!(check(&Bytes::new(), Some(&trailers)).is_err());
        assert!(
            check(&first, Some(&HeaderMap::from_iter([(STATUS, HeaderValue::from_static("14"))]))).is_err()
        );
    }
}
