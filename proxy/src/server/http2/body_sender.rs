//! BodySender: sends the body of a response, as fast as the client allows.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};
use http_client::BoxError;
use pin_project_lite::pin_project;

use super::unsent_data::{UnsentBytes, UnsentData};
use crate::gateway::grpc::CallFailure;

pin_project! {
    /// A body that is being sent. Dropped before its end, it resets the stream.
    pub(super) struct BodySender<B> {
        #[pin]
        body: B,
        to: SendStream<UnsentData>,
        // A frame that waits for the client's window; it is not the last one.
        waiting: Option<Bytes>,
        unsent: UnsentBytes,
    }
}

// === impl BodySender ===

impl<B: Body<Data = Bytes, Error: Into<BoxError>>> BodySender<B> {
    /// Counts data in `unsent` until the client reads it.
    pub(super) fn new(body: B, to: SendStream<UnsentData>, unsent: UnsentBytes) -> Self {
        Self { body, to, waiting: None, unsent }
    }

    /// Whether the client must read before more can be sent.
    pub(super) fn is_stalled(&self) -> bool {
        self.waiting.is_some()
    }

    /// Ends the response before its end: with the status of a call, or with a reset.
    pub(super) fn end(self: Pin<&mut Self>, failure: Option<CallFailure>) {
        let to = self.project().to;
        // The trailers fail if the stream was reset.
        match failure.map(|failure| to.send_trailers(failure.trailers())) {
            Some(Ok(())) => {}
            Some(Err(_)) | None => to.send_reset(Reason::CANCEL),
        }
    }

    /// Ready after the end of the body, or when the client reads no more.
    pub(super) fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            if this.waiting.is_some() && !ready!(poll_capacity(this.to, cx)) {
                return Poll::Ready(());
            }
            if let Some(data) = this.waiting.take()
                && this.to.send_data(UnsentData::new(data, this.unsent), false).is_err()
            {
                return Poll::Ready(());
            }
            let Poll::Ready(frame) = this.body.as_mut().poll_frame(cx) else {
                // The client may reset the stream while the app sends nothing.
                return this.to.poll_reset(cx).map(|_| ());
            };
            match frame {
                Some(Ok(frame)) => {
                    let is_last = this.body.is_end_stream();
                    if send(frame, is_last, this.to, this.waiting, this.unsent) {
                        return Poll::Ready(());
                    }
                }
                Some(Err(error)) => {
                    let error: BoxError = error.into();
                    tracing::debug!(%error, "response body failed");
                    this.to.send_reset(reason(&*error));
                    return Poll::Ready(());
                }
                None => {
                    // Fails only if the stream was reset.
                    let _ = this.to.send_data(UnsentData::new(Bytes::new(), this.unsent), true);
                    return Poll::Ready(());
                }
            }
        }
    }
}

/// Sends a frame, or sets it to `waiting`. True if it ends the stream.
fn send(
    frame: Frame<Bytes>,
    is_last: bool,
    to: &mut SendStream<UnsentData>,
    waiting: &mut Option<Bytes>,
    unsent: &UnsentBytes,
) -> bool {
    // Sending fails only if the stream was reset.
    match frame.into_data() {
        // h2 keeps what the window does not fit; it would stay in memory in any case.
        Ok(data) if is_last => {
            let _ = to.send_data(UnsentData::new(data, unsent), true);
            true
        }
        Ok(data) => {
            // One byte, not the frame's length: h2 requests the rest when the frame is sent. No
            // window is reserved while there is nothing to send; other streams may need it.
            if !data.is_empty() {
                to.reserve_capacity(1);
                *waiting = Some(data);
            }
            false
        }
        Err(frame) => frame.into_trailers().is_ok_and(|trailers| {
            let _ = to.send_trailers(trailers);
            true
        }),
    }
}

/// Waits until the client accepts data; false if the stream has ended.
fn poll_capacity(to: &mut SendStream<UnsentData>, cx: &mut Context<'_>) -> Poll<bool> {
    // Also registers for a reset, which gives no capacity.
    if to.poll_reset(cx).is_ready() {
        return Poll::Ready(false);
    }
    while to.capacity() == 0 {
        if !matches!(ready!(to.poll_capacity(cx)), Some(Ok(_))) {
            return Poll::Ready(false);
        }
    }
    Poll::Ready(true)
}

/// Why the app reset its stream, which the client receives too. Some clients take NO_ERROR for the
/// end of the response, so it becomes an error. REFUSED_STREAM would promise that the request was
/// not processed: a reset overtakes the head, and the client would send the request again.
fn reason(error: &(dyn Error + 'static)) -> Reason {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return error.reason().filter(is_error).unwrap_or(Reason::INTERNAL_ERROR);
        }
        cause = error.source();
    }
    Reason::INTERNAL_ERROR
}

fn is_error(reason: &Reason) -> bool {
    !matches!(*reason, Reason::NO_ERROR | Reason::REFUSED_STREAM)
}
