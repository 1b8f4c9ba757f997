//! An app of HTTP/1.1 and HTTP/2 that does what a test says, and the bodies that both ends send.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Any body.
pub(crate) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Serves until the test ends.
pub(crate) async fn serve<F>(answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            tokio::spawn(async move {
                // Callers may leave as they like.
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// A body that is known.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Reads what nobody wants. A server that closes instead, with something unread, may take its own
/// answer away from the caller.
pub(crate) fn read_on(body: Incoming) {
    tokio::spawn(body.collect());
}

/// No body.
pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is what the other end of the channel says, piece by piece; its drop closes the
/// channel.
pub(crate) fn told() -> (mpsc::Sender<Frame<Bytes>>, Body) {
    let (sender, mut pieces) = mpsc::channel(1);
    let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx).map(|piece| piece.map(Ok)));
    (sender, StreamBody::new(pieces).boxed_unsync())
}

/// One trailer.
pub(crate) fn trailer(name: &'static str, value: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    Frame::trailers(trailers)
}
