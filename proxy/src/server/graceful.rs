//! Graceful shutdown of connections.
//!
//! A stop shuts down all connections of a listener. A handler shuts down one connection, by marking
//! a response with [`drain_connection`]. An HTTP/2 client then gets GOAWAY in the two steps that
//! lose no request (RFC 9113, 6.8): the first GOAWAY names no last stream and comes with a PING,
//! and only streams behind the PING's acknowledgement are refused. HTTP/1 clients get `Connection:
//! close` in the response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};

use http::{HeaderValue, Response, StatusCode, Version, header};
use http_body::Body;
use http_client::BoxError;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::{http1, http2};
use hyper::service::HttpService;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use pin_project_lite::pin_project;

/// Extension of an HTTP/2 response: its connection accepts no more requests.
#[derive(Clone, Copy, Debug)]
struct LastResponse;

/// A connection that can shut down gracefully.
pub(super) trait GracefulShutdown: Future {
    /// Accepts no more requests; ends after the running ones.
    fn shut_down(self: Pin<&mut Self>);
}

/// Carries the request to drain from a handler to the task of its connection.
#[derive(Debug, Default)]
pub(super) struct DrainSignal {
    is_set: AtomicBool,
    connection: Mutex<Option<Waker>>,
}

pin_project! {
    /// A connection, the stop of its listener, and the drain signal of its handler.
    pub(super) struct GracefulConnection<C, S: Future> {
        #[pin]
        connection: C,
        #[pin]
        stop: S,
        // Held until the connection has ended: the listener waits for its drop.
        stopped: Option<S::Output>,
        // `None` for HTTP/1, where `Connection: close` does the same.
        signal: Option<Arc<DrainSignal>>,
        shutting_down: bool,
    }
}

pin_project! {
    /// The response future of a handler; signals the connection if the response requests a drain.
    pub(super) struct DrainObserver<F> {
        #[pin]
        response: F,
        signal: Arc<DrainSignal>,
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

/// Closes an HTTP/1 connection after this response.
pub fn close_connection<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

// === impl DrainSignal ===

impl DrainSignal {
    /// Called with each response.
    fn observe<B>(&self, response: &Response<B>) {
        if response.extensions().get::<LastResponse>().is_some() {
            self.set();
        }
    }

    /// Requests the drain.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Release);
        let connection = self.connection.lock().take();
        if let Some(connection) = connection {
            connection.wake();
        }
    }

    /// Registers the connection's task. True if the signal was given.
    fn register(&self, connection: &Waker) -> bool {
        *self.connection.lock() = Some(connection.clone());
        self.is_set.load(Ordering::Acquire)
    }
}

// === impl DrainObserver ===

impl<F> DrainObserver<F> {
    pub(super) fn new(response: F, signal: Arc<DrainSignal>) -> Self {
        Self { response, signal }
    }
}

impl<F: Future<Output = Result<Response<B>, Infallible>>, B> Future for DrainObserver<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.response.poll(cx));
        this.signal.observe(&response);
        Poll::Ready(Ok(response))
    }
}

// === impl GracefulConnection ===

impl<C, S: Future> GracefulConnection<C, S> {
    /// Shuts down when `stop` completes or at `signal`. The output of `stop` is held until the
    /// connection has ended.
    pub(super) fn new(connection: C, stop: S, signal: Option<Arc<DrainSignal>>) -> Self {
        Self { connection, stop, stopped: None, signal, shutting_down: false }
    }
}

impl<C: GracefulShutdown, S: Future> Future for GracefulConnection<C, S> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let mut this = self.project();
        if this.stopped.is_none()
            && let Poll::Ready(stopped) = this.stop.poll(cx)
        {
            *this.stopped = Some(stopped);
            *this.shutting_down = true;
            this.connection.as_mut().shut_down();
        }
        loop {
            if let Poll::Ready(ended) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let signal = this.signal.as_ref().filter(|_| !*this.shutting_down);
            if !signal.is_some_and(|signal| signal.register(cx.waker())) {
                return Poll::Pending;
            }
            *this.shutting_down = true;
            this.connection.as_mut().shut_down();
        }
    }
}

impl<I, B, S> GracefulShutdown for http1::UpgradeableConnection<I, S>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Error: Into<BoxError>,
    I: Read + Write + Unpin + Send + 'static,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

impl<I, B, S> GracefulShutdown for http2::Connection<I, S, TokioExecutor>
where
    S: HttpService<Incoming, ResBody = B>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    I: Read + Write + Unpin,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
