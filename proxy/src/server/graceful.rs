//! GracefulConnection: a connection that is told when to take no more requests.
//!
//! All of a listener's are told at its stop. One alone is told by the service, which marks a response by [`drain_connection`]: an
//! HTTP/2 caller then gets GOAWAY, in the two steps that lose nothing (RFC 9113, 6.8): the first names no last stream and
//! comes with a PING, and only what arrives after the PING's answer is refused. So it may be sent at any time. Callers of
//! HTTP/1 are told by `Connection: close` in the response itself.

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

/// In the extensions of a response to HTTP/2: its connection takes no more requests.
#[derive(Clone, Copy, Debug)]
struct LastResponse;

/// A connection that can be told.
pub(super) trait GracefulShutdown: Future {
    /// It ends once what runs has ended.
    fn end(self: Pin<&mut Self>);
}

/// What a connection's service tells the connection.
#[derive(Debug, Default)]
pub(super) struct DrainSignal {
    is_given: AtomicBool,
    connection: Mutex<Option<Waker>>,
}

pin_project! {
    /// A connection, the stop of its listener, and the word of its service.
    pub(super) struct GracefulConnection<C, S: Future> {
        #[pin]
        connection: C,
        #[pin]
        stop: S,
        // Kept until the connection has ended, for who waits for that.
        stopped: Option<S::Output>,
        // None for HTTP/1, which has no use for it.
        word: Option<Arc<DrainSignal>>,
        told: bool,
    }
}

pin_project! {
    /// An answer of the service, and who wants to know of it.
    pub(super) struct DrainObserver<F> {
        #[pin]
        answer: F,
        word: Arc<DrainSignal>,
    }
}

/// Tells the caller to connect anew, with a response to a request of this version: the connection takes no more requests, and
/// none that it has taken fails.
pub fn drain_connection<B>(response: &mut Response<B>, version: Version) {
    if version == Version::HTTP_2 {
        response.extensions_mut().insert(LastResponse);
    }
    close_connection(response, version);
}

/// Ends the connection after this response, where it carries one request at a time.
pub fn close_connection<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

// === impl DrainSignal ===

impl DrainSignal {
    /// After each response.
    fn heed<B>(&self, response: &Response<B>) {
        if response.extensions().get::<LastResponse>().is_some() {
            self.is_given.store(true, Ordering::Release);
            let connection = self.connection.lock().take();
            if let Some(connection) = connection {
                connection.wake();
            }
        }
    }

    /// The connection's task is to be woken when the word is given. True if it has been.
    fn await_by(&self, connection: &Waker) -> bool {
        *self.connection.lock() = Some(connection.clone());
        self.is_given.load(Ordering::Acquire)
    }
}

// === impl DrainObserver ===

impl<F> DrainObserver<F> {
    pub(super) fn new(answer: F, word: Arc<DrainSignal>) -> Self {
        Self { answer, word }
    }
}

impl<F: Future<Output = Result<Response<B>, Infallible>>, B> Future for DrainObserver<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.answer.poll(cx));
        this.word.heed(&response);
        Poll::Ready(Ok(response))
    }
}

// === impl GracefulConnection ===

impl<C, S: Future> GracefulConnection<C, S> {
    /// Told by the end of `stop`, whose output is kept until the connection has ended, or by `word`.
    pub(super) fn new(connection: C, stop: S, word: Option<Arc<DrainSignal>>) -> Self {
        Self { connection, stop, stopped: None, word, told: false }
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
            *this.told = true;
            this.connection.as_mut().end();
        }
        loop {
            if let Poll::Ready(ended) = this.connection.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
            let word = this.word.as_ref().filter(|_| !*this.told);
            if !word.is_some_and(|word| word.await_by(cx.waker())) {
                return Poll::Pending;
            }
            *this.told = true;
            this.connection.as_mut().end();
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
    fn end(self: Pin<&mut Self>) {
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
    fn end(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}
