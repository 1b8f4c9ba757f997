//! Exchange: one stream, from its request's head to the end of its response.
//!
//! A response with a complete body leaves with one poll, in one write with its head.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use http::Response;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use http_body_util::Full;
use http_client::{BoxError, interim};
use pin_project_lite::pin_project;

use super::body_sender::BodySender;
use super::date;
use super::stream_set::BufferedBytes;
use super::unsent_data::{UnsentBytes, UnsentData};
use crate::gateway;
use crate::gateway::grpc::{Call, CallFailure};
use crate::server::graceful;

/// What a response keeps in memory while its client does not read it: the window of its app's
/// stream in buffers that are a quarter larger, and a frame here.
const STALLED_RESPONSE: usize = (64 << 10) * 5 / 4 + (20 << 10);
/// Interim responses of a request, at most: they wait in memory until the client reads.
const MAX_INTERIM: u8 = 16;

/// Between a connection and its streams.
#[derive(Debug, Default)]
pub(super) struct ConnectionSignals {
    /// A response was the last one of the connection.
    pub(super) drains: AtomicBool,
    /// Requests without a response were not begun, and are refused when they are polled.
    pub(super) refuses: AtomicBool,
    /// Others need the descriptor: the close does not linger.
    pub(super) closes_at_once: AtomicBool,
    /// Bytes of responses that the client has not read.
    pub(super) unsent: UnsentBytes,
}

pin_project! {
    /// A stream. Dropped before its end, it is reset.
    pub(super) struct Exchange<F, B> {
        respond: SendResponse<UnsentData>,
        is_head: bool,
        // If the request is one of gRPC.
        call: Option<Call>,
        // Interim responses that may still be sent.
        interim_left: u8,
        signals: Arc<ConnectionSignals>,
        #[pin]
        state: State<F, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, B> {
        Handled {
            #[pin]
            response: F,
        },
        Sent {
            #[pin]
            body: BodySender<B>,
        },
    }
}

// === impl Exchange ===

impl<F, B> Exchange<F, B> {
    pub(super) fn new(
        response: F,
        respond: SendResponse<UnsentData>,
        is_head: bool,
        call: Option<Call>,
        signals: Arc<ConnectionSignals>,
    ) -> Self {
        Self {
            respond,
            is_head,
            call,
            interim_left: MAX_INTERIM,
            signals,
            state: State::Handled { response },
        }
    }
}

impl<F, B: Body<Data = Bytes, Error: Into<BoxError>>> Exchange<F, B> {
    /// Sends `response` as the last use of this stream, or resets it if another one has begun.
    pub(super) fn refuse(self: Pin<&mut Self>, mut response: Response<Full<Bytes>>) {
        let this = self.project();
        let failure = response.extensions().get::<CallFailure>().cloned();
        match this.state.project() {
            StateProjection::Handled { .. } => {
                if this.call.is_some_and(|call| CallFailure::respond(&mut response, call)) {
                    *response.body_mut() = Full::default();
                }
                let sent = send_head(response, *this.is_head, this.respond, &this.signals.unsent);
                if let Some(body) = sent {
                    // It is complete, and waits in h2 for the client's window.
                    let _ = pin!(body).poll(&mut Context::from_waker(Waker::noop()));
                }
            }
            StateProjection::Sent { body } => {
                // Trailers would wait behind data that the client does not read.
                let is_read = *this.call == Some(Call::Grpc) && !body.is_stalled();
                body.end(failure.filter(|_| is_read));
            }
        }
    }
}

impl<F, B> Future for Exchange<F, B>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
    B: Body<Data = Bytes, Error: Into<BoxError>>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            match this.state.as_mut().project() {
                StateProjection::Handled { response } => {
                    let (polled, interim) = interim::collect(|| response.poll(cx));
                    send_interim(interim, this.interim_left, this.respond);
                    let Poll::Ready(Ok(response)) = polled else {
                        if this.signals.refuses.load(Ordering::Relaxed) {
                            this.respond.send_reset(Reason::REFUSED_STREAM);
                            return Poll::Ready(());
                        }
                        // The client may reset the stream meanwhile.
                        return this.respond.poll_reset(cx).map(|_| ());
                    };
                    if graceful::is_last(&response) {
                        this.signals.drains.store(true, Ordering::Relaxed);
                    }
                    let sent = send_head(response, *this.is_head, this.respond, &this.signals.unsent);
                    let Some(body) = sent else {
                        return Poll::Ready(());
                    };
                    this.state.set(State::Sent { body });
                }
                StateProjection::Sent { body } => return body.poll(cx),
            }
        }
    }
}

impl<F, B: Body<Data = Bytes, Error: Into<BoxError>>> BufferedBytes for Exchange<F, B> {
    fn buffered_bytes(self: Pin<&mut Self>) -> usize {
        match self.project().state.project() {
            StateProjection::Sent { body } if body.is_stalled() => STALLED_RESPONSE,
            _ => 0,
        }
    }
}

fn send_interim(interim: Vec<Response<()>>, left: &mut u8, respond: &mut SendResponse<UnsentData>) {
    for mut response in interim {
        let Some(next) = left.checked_sub(1) else { return };
        *left = next;
        gateway::remove_hop_by_hop(response.headers_mut());
        // Fails only if the stream was reset.
        let _ = respond.send_informational(response);
    }
}

/// Sends the head, and returns the body if there is one. h2 refuses headers that concern one
/// connection.
fn send_head<B: Body<Data = Bytes, Error: Into<BoxError>>>(
    response: Response<B>,
    is_head: bool,
    respond: &mut SendResponse<UnsentData>,
    unsent: &UnsentBytes,
) -> Option<BodySender<B>> {
    let (mut head, body) = response.into_parts();
    date::add(&mut head.headers);
    let has_body = !body.is_end_stream();
    if has_body
        && let Some(length) = body.size_hint().exact()
        && !head.headers.contains_key(CONTENT_LENGTH)
    {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    let ends = is_head || !has_body;
    match respond.send_response(Response::from_parts(head, ()), ends) {
        Ok(to) => (!ends).then(|| BodySender::new(body, to, unsent.clone())),
        Err(error) => {
            tracing::debug!(%error, "response head cannot be sent");
            respond.send_reset(Reason::INTERNAL_ERROR);
            None
        }
    }
}
