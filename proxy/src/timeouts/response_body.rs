//! TimedResponseBody: the app's response body on its way to the client, under the request's
//! timeouts.
//!
//! A body that is complete with its first frame, as most are, is passed through: both servers poll
//! it as soon as they have the head. Any other body is shared with the timeout list, which drops it
//! when a timeout is exceeded. A server does not poll a body while the client reads nothing, so
//! without the list a stalled client would keep its slot of the app.
//!
//! A gRPC call that the app or a timeout ends gets a status: a reset would make its client guess.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use http_client::ResponseBody;
use parking_lot::{Mutex, MutexGuard};

use super::grpc_status;
use super::request_timer::{RequestTimer, TimeoutExceeded};
use crate::gateway::grpc::{CallFailure, CallStream};

/// The body of a response of the app.
#[derive(Debug)]
pub struct TimedResponseBody<G> {
    state: BodyState<G>,
    /// Of a gRPC call: a failure of the app becomes its status.
    call: Option<CallStream>,
}

/// What a request holds until the end of its response body: its slot, and its place in the counts.
///
/// It is dropped without a call of [`end`](ResponseGuard::end) if the client left or stalled.
pub trait ResponseGuard: Send + Unpin + 'static {
    /// The app completed its response, or `failed` to: the response was cut by the app or while the
    /// app was silent, or it has the gRPC status of a failure in the server.
    fn end(self, failed: bool);
}

/// Why a response body is incomplete. The client sees a closed connection or a reset stream.
#[derive(Debug, thiserror::Error)]
pub enum ResponseBodyError {
    #[error("the app did not complete its response")]
    App(#[source] http_client::BodyError),
    #[error(transparent)]
    Timeout(#[from] TimeoutExceeded),
}

// Its size is near the lint's bound, so this cannot be `expect`.
#[allow(
    clippy::large_enum_variant,
    reason = "each connection has memory for one body; a box would be allocated for each response"
)]
#[derive(Debug)]
enum BodyState<G> {
    /// No poll was pending so far.
    Fresh(LiveBody<G>),
    Shared(Arc<SharedBody<G>>),
    Ended,
}

/// A body that has not ended, with everything that ends with it.
#[derive(Debug)]
struct LiveBody<G> {
    body: ResponseBody,
    /// `None` after the end, and of health checks.
    guard: Option<G>,
    timer: RequestTimer,
}

/// A body that the client's connection and the timeout list share.
#[derive(Debug)]
struct SharedBody<G>(Mutex<SharedBodyState<G>>);

#[derive(Debug)]
struct SharedBodyState<G> {
    /// `None` after the end.
    live: Option<LiveBody<G>>,
    /// The timeout that cut the body, until it is returned as an error.
    cut: Option<TimeoutExceeded>,
    /// The client's connection while it waits for the app's next frame; `None` while the client
    /// takes nothing.
    task: Option<Waker>,
}

type PolledFrame = Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>>;

// === impl TimedResponseBody ===

impl<G: ResponseGuard> TimedResponseBody<G> {
    /// Wraps the body of `response`. `guard` ends with the body; health checks have none.
    pub fn wrap(response: Response<ResponseBody>, guard: Option<G>, timer: RequestTimer) -> Response<Self> {
        let (head, body) = response.into_parts();
        let mut live = LiveBody { body, guard, timer };
        if live.body.is_end_stream() {
            live.end(grpc_status::is_server_failure(&head.headers));
        }
        let call = CallStream::of(&head);
        Response::from_parts(head, Self { state: BodyState::Fresh(live), call })
    }

    fn poll_app_frame(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        let this = self;
        if let BodyState::Fresh(live) = &mut this.state {
            let polled = live.poll_frame(cx);
            if live.has_ended(&polled) {
                this.state = BodyState::Ended;
                return polled;
            }
            this.share();
            if polled.is_ready() {
                return polled;
            }
        }
        match &mut this.state {
            BodyState::Fresh(_) => Poll::Pending,
            BodyState::Shared(shared) => shared.poll_frame(cx),
            BodyState::Ended => Poll::Ready(None),
        }
    }

    /// Shares the body with the timeout list. A body that a server does not poll at once is shared
    /// by its owner.
    pub fn share(&mut self) {
        if !matches!(&self.state, BodyState::Fresh(live) if live.timer.has_timeouts()) {
            return;
        }
        let BodyState::Fresh(live) = std::mem::replace(&mut self.state, BodyState::Ended) else { return };
        let state = SharedBodyState { live: Some(live), cut: None, task: None };
        let shared = Arc::new(SharedBody(Mutex::new(state)));
        if let Some(live) = &mut shared.lock().live {
            live.timer.schedule(&Waker::from(shared.clone()));
        }
        self.state = BodyState::Shared(shared);
    }
}

impl<G: ResponseGuard> Body for TimedResponseBody<G> {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> PolledFrame {
        let polled = self.poll_app_frame(cx);
        let (Some(call), Poll::Ready(Some(frame))) = (&mut self.call, &polled) else { return polled };
        let failure = match frame {
            Ok(frame) => {
                call.record(frame);
                return polled;
            }
            Err(error) => call_failure(error),
        };
        match failure.and_then(|failure| call.end(&failure)) {
            Some(end) => Poll::Ready(Some(Ok(end))),
            None => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            BodyState::Fresh(live) => live.body.is_end_stream(),
            // A cut body has not returned its error yet.
            BodyState::Shared(shared) => {
                let stream = shared.lock();
                stream.cut.is_none() && stream.live.as_ref().is_none_or(|live| live.body.is_end_stream())
            }
            BodyState::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            BodyState::Fresh(live) => live.body.size_hint(),
            BodyState::Shared(shared) => {
                let stream = shared.lock();
                stream.live.as_ref().map_or_else(SizeHint::default, |live| live.body.size_hint())
            }
            BodyState::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<G> Drop for TimedResponseBody<G> {
    fn drop(&mut self) {
        if let BodyState::Shared(shared) = &self.state {
            let live = shared.lock().live.take();
            drop(live);
        }
    }
}

/// How a call fails whose response has begun. A reset by the app is passed on, because its code has
/// a meaning.
fn call_failure(error: &ResponseBodyError) -> Option<CallFailure> {
    match error {
        ResponseBodyError::App(http_client::BodyError::Http2(cause)) if cause.is_reset() => None,
        ResponseBodyError::App(_) => Some(CallFailure::unavailable(error.to_string())),
        ResponseBodyError::Timeout(_) => Some(CallFailure::timed_out(error.to_string())),
    }
}

// === impl LiveBody ===

impl<G: ResponseGuard> LiveBody<G> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> PolledFrame {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Some(Err(_))) => self.end(true),
            Poll::Ready(Some(Ok(frame))) => {
                let failed = frame.trailers_ref().is_some_and(grpc_status::is_server_failure);
                // A caller that sees `is_end_stream` need not poll again.
                if failed || self.body.is_end_stream() {
                    self.end(failed);
                }
            }
            Poll::Ready(None) => self.end(false),
        }
        self.timer.touch();
        polled.map_err(ResponseBodyError::App)
    }

    /// Ends the request.
    fn end(&mut self, failed: bool) {
        if let Some(guard) = self.guard.take() {
            guard.end(failed);
        }
    }

    fn has_ended(&self, polled: &PolledFrame) -> bool {
        match polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(_) => true,
        }
    }
}

// === impl SharedBody ===

impl<G: ResponseGuard> SharedBody<G> {
    fn poll_frame(&self, cx: &mut Context<'_>) -> PolledFrame {
        let mut stream = self.lock();
        let Some(live) = &mut stream.live else {
            return Poll::Ready(stream.cut.take().map(|timeout| Err(timeout.into())));
        };
        let polled = live.poll_frame(cx);
        let ended = if live.has_ended(&polled) { stream.live.take() } else { None };
        stream.task = polled.is_pending().then(|| cx.waker().clone());
        drop(stream);
        drop(ended);
        polled
    }
}

impl<G> SharedBody<G> {
    fn lock(&self) -> MutexGuard<'_, SharedBodyState<G>> {
        self.0.lock()
    }
}

/// The timeout list wakes the body when a timeout may be exceeded.
impl<G: ResponseGuard> Wake for SharedBody<G> {
    fn wake(self: Arc<Self>) {
        let mut stream = self.lock();
        let Some(live) = &mut stream.live else { return };
        let Some(timeout) = live.timer.exceeded() else {
            live.timer.schedule(&Waker::from(self.clone()));
            return;
        };
        tracing::debug!(%timeout, "response cut off at its timeout");
        stream.cut = Some(timeout);
        let (live, task) = (stream.live.take(), stream.task.take());
        drop(stream);
        // Without a waiting connection it is the client that stalls, and the app did not fail.
        if let (Some(mut live), Some(task)) = (live, task) {
            live.end(true);
            drop(live);
            task.wake();
        }
    }
}
