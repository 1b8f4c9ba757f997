//! Graceful shutdown of connections.
//!
//! A stop shuts down all connections of a listener. A handler shuts down one connection, by marking
//! a response with [`drain_connection`]. An HTTP/2 client then gets GOAWAY in the two steps that
//! lose no request (RFC 9113, 6.8): the first GOAWAY names no last stream and comes with a PING,
//! and only streams behind the PING's acknowledgement are refused. HTTP/1 clients get `Connection:
//! close` in the response.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body::Body;
use http_client::BoxError;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http1::UpgradeableConnection;
use hyper::service::HttpService;
use pin_project_lite::pin_project;

/// Extension of an HTTP/2 response: its connection accepts no more requests.
#[derive(Clone, Copy, Debug)]
struct LastResponse;

pin_project! {
    /// A connection of HTTP/1, and the stop of its listener.
    pub(super) struct GracefulConnection<I, T: HttpService<Incoming>, S: Future> {
        #[pin]
        connection: UpgradeableConnection<I, T>,
        #[pin]
        stop: S,
        // Held until the connection has ended: the listener waits for its drop.
        stopped: Option<S::Output>,
    }
}

/// Makes the client open a new connection after this response: the connection accepts no more
/// requests, and no accepted request fails.
pub fn drain_connection<B>(response: &mut Response<B>, version: Version) {
    if version == Version::HTTP_2 {
        response.extensions_mut().insert(LastResponse);
    }
    close_connection(response, version);
}

/// Whether the connection of an HTTP/2 response accepts no more requests.
pub(super) fn is_last<B>(response: &Response<B>) -> bool {
    response.extensions().get::<LastResponse>().is_some()
}

/// Closes an HTTP/1 connection after this response.
pub fn close_connection<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

// === impl GracefulConnection ===

impl<I, T: HttpService<Incoming>, S: Future> GracefulConnection<I, T, S> {
    /// Shuts down when `stop` completes. The output of `stop` is held until the connection has
    /// ended.
    pub(super) fn new(connection: UpgradeableConnection<I, T>, stop: S) -> Self {
        Self { connection, stop, stopped: None }
    }
}

impl<I, T, B, S> Future for GracefulConnection<I, T, S>
where
    T: HttpService<Incoming, ResBody = B>,
    T::Error: Into<BoxError>,
    I: Read + Write + Unpin + Send + 'static,
    B: Body + 'static,
    B::Error: Into<BoxError>,
    S: Future,
{
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        let mut this = self.project();
        if this.stopped.is_none()
            && let Poll::Ready(stopped) = this.stop.poll(cx)
        {
            // The connection first: hyper ends one that it has not read from at once, though a
            // request may have arrived.
            if let Poll::Ready(served) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(served);
            }
            *this.stopped = Some(stopped);
            this.connection.as_mut().graceful_shutdown();
        }
        this.connection.poll(cx)
    }
}
