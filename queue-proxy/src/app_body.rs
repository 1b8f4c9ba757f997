//! AppBody: the app's response on its way to the caller, under the request's timeouts.
//!
//! A body that comes at once, as most do, is passed through and no more. One that makes somebody wait is shared with the
//! list of deadlines, which takes it away when its time is over: HTTP libraries do not ask for a body's next part while
//! the caller takes nothing, so a caller that stalls would keep its slot of the app for ever.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Response, Version};
use http_body::{Body, Frame, SizeHint};
use http_client::ResponseBody;
use parking_lot::{Mutex, MutexGuard};
use proxy::tracked_body::TrackedBody;

use crate::request_counter::InFlight;
use crate::timeouts::{Stopwatch, Timeout};

/// The rest of a response.
#[derive(Debug)]
pub(crate) struct AppBody(State);

/// Why a response ends before its end. The caller sees a connection or a stream that was cut.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the app did not finish its response")]
    App(#[source] http_client::BodyError),
    #[error(transparent)]
    Timeout(#[from] Timeout),
}

// Its size is near the lint's bound, so this cannot be `expect`.
#[allow(
    clippy::large_enum_variant,
    reason = "a connection has the room once, a box would be one for each response"
)]
#[derive(Debug)]
enum State {
    /// Nobody has waited for a part of it.
    Fresh(Live),
    Streaming(Arc<Streaming>),
    Ended,
}

/// A body that has not ended, and what ends with it.
#[derive(Debug)]
struct Live {
    body: TrackedBody<ResponseBody, Option<InFlight>>,
    stopwatch: Stopwatch,
}

/// What the caller's connection and the list of deadlines share.
#[derive(Debug)]
struct Streaming(Mutex<Stream>);

#[derive(Debug)]
struct Stream {
    /// None after the end.
    live: Option<Live>,
    cut: Option<Timeout>,
    /// Who waits for the next part.
    task: Option<Waker>,
}

type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

// === impl AppBody ===

impl AppBody {
    /// `response`, whose caller speaks `version`. Its end is that of `in_flight`.
    pub(crate) fn of(
        response: Response<ResponseBody>,
        version: Version,
        in_flight: Option<InFlight>,
        stopwatch: Stopwatch,
    ) -> Response<Self> {
        response.map(|body| {
            let mut this = Self(State::Fresh(Live { body: TrackedBody::new(body, in_flight), stopwatch }));
            // Such a caller can stall before the first part.
            if version == Version::HTTP_2 && !this.is_end_stream() {
                this.share();
            }
            this
        })
    }

    /// Lets the list of deadlines take the body away.
    fn share(&mut self) {
        if !matches!(&self.0, State::Fresh(live) if live.stopwatch.has_bounds()) {
            return;
        }
        let State::Fresh(live) = std::mem::replace(&mut self.0, State::Ended) else { return };
        let shared = Arc::new(Streaming(Mutex::new(Stream { live: Some(live), cut: None, task: None })));
        if let Some(live) = &mut shared.lock().live {
            live.stopwatch.wait(&Waker::from(shared.clone()));
        }
        self.0 = State::Streaming(shared);
    }
}

impl Body for AppBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        let this = &mut *self;
        if let State::Fresh(live) = &mut this.0 {
            let polled = live.poll_frame(cx);
            if live.has_ended(&polled) {
                this.0 = State::Ended;
                return polled;
            }
            this.share();
            if polled.is_ready() {
                return polled;
            }
        }
        match &mut this.0 {
            State::Fresh(_) => Poll::Pending,
            State::Streaming(shared) => shared.poll_frame(cx),
            State::Ended => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Fresh(live) => live.body.is_end_stream(),
            // A body that was cut has its error still to come.
            State::Streaming(shared) => {
                let stream = shared.lock();
                stream.cut.is_none() && stream.live.as_ref().is_none_or(|live| live.body.is_end_stream())
            }
            State::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Fresh(live) => live.body.size_hint(),
            State::Streaming(shared) => {
                let stream = shared.lock();
                stream.live.as_ref().map_or_else(SizeHint::default, |live| live.body.size_hint())
            }
            State::Ended => SizeHint::with_exact(0),
        }
    }
}

impl Drop for AppBody {
    fn drop(&mut self) {
        if let State::Streaming(shared) = &self.0 {
            let live = shared.lock().live.take();
            drop(live);
        }
    }
}

// === impl Live ===

impl Live {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_ready() {
            self.stopwatch.active();
        }
        polled.map_err(BodyError::App)
    }

    fn has_ended(&self, polled: &Polled) -> bool {
        match polled {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(_))) => self.body.is_end_stream(),
            Poll::Ready(_) => true,
        }
    }
}

// === impl Streaming ===

impl Streaming {
    fn poll_frame(&self, cx: &mut Context<'_>) -> Polled {
        let mut stream = self.lock();
        let Some(live) = &mut stream.live else {
            return Poll::Ready(stream.cut.take().map(|timeout| Err(timeout.into())));
        };
        let polled = live.poll_frame(cx);
        let ended = if live.has_ended(&polled) { stream.live.take() } else { None };
        if polled.is_pending() {
            stream.task = Some(cx.waker().clone());
        }
        drop(stream);
        drop(ended);
        polled
    }

    fn lock(&self) -> MutexGuard<'_, Stream> {
        self.0.lock()
    }
}

/// What the list of deadlines does when the time may be over.
impl Wake for Streaming {
    fn wake(self: Arc<Self>) {
        let mut stream = self.lock();
        let Some(live) = &mut stream.live else { return };
        let Some(timeout) = live.stopwatch.over() else {
            live.stopwatch.wait(&Waker::from(self.clone()));
            return;
        };
        tracing::debug!(%timeout, "a response was cut");
        stream.cut = Some(timeout);
        let (live, task) = (stream.live.take(), stream.task.take());
        drop(stream);
        drop(live);
        if let Some(task) = task {
            task.wake();
        }
    }
}
