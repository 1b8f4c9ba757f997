//! An HTTP/1.1 and HTTP/2 app with a handler per test, and the bodies for both ends.

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

/// A body of any type.
pub(crate) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// Serves until the test ends.
pub(crate) async fn serve<F>(handler: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static) -> SocketAddr
where
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            stream.set_nodelay(true).unwrap();
            let handler = handler.clone();
            let service = service_fn(move |request| {
                let response = handler(request);
                async move { Ok::<_, Infallible>(response.await) }
            });
            tokio::spawn(async move {
                // A client may disconnect at any time.
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    address
}

/// A body with these bytes.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Reads and discards a body. A server that closes with unread data may reset the connection, and
/// the client would lose the response.
pub(crate) fn discard(body: Incoming) {
    tokio::spawn(body.collect());
}

pub(crate) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body with the frames that are sent to the channel. Its drop closes the channel.
pub(crate) fn channel_body() -> (mpsc::Sender<Frame<Bytes>>, Body) {
    let (sender, mut pieces) = mpsc::channel(1);
    let pieces = stream::poll_fn(move |cx| pieces.poll_recv(cx).map(|piece| piece.map(Ok)));
    (sender, StreamBody::new(pieces).boxed_unsync())
}

/// A trailers frame with one field.
pub(crate) fn trailer(name: &'static str, value: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert(name, value.parse().unwrap());
    Frame::trailers(trailers)
}
