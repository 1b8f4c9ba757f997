//! Upload: sends the body of a request on its stream, as fast as the client and the server allow.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};

use crate::error::Error;
use crate::request_body::RequestBody;
use crate::rewindable_body::RewindableBody;

/// A body that is being sent. Dropped before its end, it resets the stream.
#[derive(Debug)]
pub(super) struct Upload<B> {
    body: RewindableBody<B>,
    to: SendStream<Bytes>,
    /// A frame that waits for the server's window.
    waiting: Option<Data>,
}

#[derive(Debug)]
struct Data {
    bytes: Bytes,
    is_last: bool,
}

// === impl Upload ===

impl<B: RequestBody> Upload<B> {
    pub(super) fn new(body: RewindableBody<B>, to: SendStream<Bytes>) -> Self {
        Self { body, to, waiting: None }
    }

    /// The body, to be sent again.
    pub(super) fn into_body(self) -> RewindableBody<B> {
        self.body
    }

    /// Sends until the end of the body, or until the server reads no more; what the server's reason
    /// is, its response reports.
    ///
    /// # Errors
    /// [`Error::RequestBody`].
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        loop {
            // Also registers for a reset that comes while the client sends nothing.
            if self.to.poll_reset(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if self.waiting.is_some() && !ready!(self.poll_capacity(cx)) {
                return Poll::Ready(Ok(()));
            }
            if let Some(data) = self.waiting.take() {
                if self.to.send_data(data.bytes, data.is_last).is_err() || data.is_last {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if self.take(frame) {
                        return Poll::Ready(Ok(()));
                    }
                }
                Some(Err(error)) => {
                    self.to.send_reset(Reason::CANCEL);
                    return Poll::Ready(Err(Error::RequestBody(error)));
                }
                None => {
                    // Fails only if the stream was reset.
                    let _ = self.to.send_data(Bytes::new(), true);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }

    /// Waits until the server accepts data; false if the stream has ended.
    fn poll_capacity(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        while self.to.capacity() == 0 {
            if !matches!(ready!(self.to.poll_capacity(cx)), Some(Ok(_))) {
                return Poll::Ready(false);
            }
        }
        Poll::Ready(true)
    }

    /// True after trailers, which end the stream.
    fn take(&mut self, frame: Frame<Bytes>) -> bool {
        match frame.into_data() {
            Ok(bytes) => {
                // One byte, not the frame's length: h2 requests the rest when the frame is sent. No
                // window is reserved while there is nothing to send; other streams may need it.
                if !bytes.is_empty() {
                    self.to.reserve_capacity(1);
                    self.waiting = Some(Data { bytes, is_last: self.body.is_end_stream() });
                }
                false
            }
            Err(frame) => frame.into_trailers().is_ok_and(|trailers| {
                // Fails only if the stream was reset.
                let _ = self.to.send_trailers(trailers);
                true
            }),
        }
    }
}
