//! Exchange: the response to one request, by its handler or in its place.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Response, Version};
use http_body_util::{Either, Full};
use pin_project_lite::pin_project;

use super::keep_alive::KeepAlive;
use crate::client_stream::ClientSignals;
use crate::server::close_connection;

pin_project! {
    /// A request that is handled. Dropped behind a refusal, it drops the request.
    pub(super) struct Exchange<F> {
        #[pin]
        handled: F,
        version: Version,
        keep_alive: KeepAlive,
        signals: ClientSignals,
    }
}

// === impl Exchange ===

impl<F> Exchange<F> {
    pub(super) fn new(handled: F, version: Version, keep_alive: KeepAlive, signals: &ClientSignals) -> Self {
        Self { handled, version, keep_alive, signals: signals.clone() }
    }
}

impl<F, B> Future for Exchange<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<Either<B, Full<Bytes>>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(refusal) = this.signals.take_refusal() {
            let mut response = refusal.map(Either::Right);
            close_connection(&mut response, *this.version);
            return Poll::Ready(Ok(response));
        }
        let mut response = ready!(this.handled.poll(cx))?.map(Either::Left);
        this.signals.begin_response();
        if this.signals.closes_after_response() {
            close_connection(&mut response, *this.version);
        } else {
            this.keep_alive.add(&mut response);
        }
        Poll::Ready(Ok(response))
    }
}
