//! RewindableBody: a request body that can be sent again while no more than its first frame was
//! read.
//!
//! Most bodies have one small frame, such as the message of a gRPC call. So most requests can be
//! sent again if the server promises not to have processed them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::error::BoxError;
use crate::request_body::RequestBody;

/// Largest first frame that is kept, in bytes: the default frame size of HTTP/2.
const MAX_KEPT: usize = 16 * 1024;

/// A body, and its first frame.
#[derive(Debug)]
pub(crate) struct RewindableBody<B> {
    body: B,
    state: ReadState,
}

#[derive(Debug)]
enum ReadState {
    Unread,
    /// The first frame, or the end, is read next.
    Peeked(Option<Result<Frame<Bytes>, BoxError>>),
    /// The first frame was read, and no other.
    FirstFrame(Bytes),
    /// Frames are lost.
    Lost,
}

// === impl RewindableBody ===

impl<B: RequestBody> RewindableBody<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, state: ReadState::Unread }
    }

    /// Starts again from the first byte; false if that is lost.
    pub(crate) fn rewind(&mut self) -> bool {
        self.state = match std::mem::replace(&mut self.state, ReadState::Lost) {
            ReadState::FirstFrame(first) => ReadState::Peeked(Some(Ok(Frame::data(first)))),
            state => state,
        };
        !matches!(self.state, ReadState::Lost)
    }

    /// The number of bytes that are left to read, if it is known. Reads the first frame if it has
    /// arrived: most gRPC calls send one message, without a length.
    pub(crate) fn length(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        if matches!(self.state, ReadState::Unread)
            && self.size_hint().exact().is_none()
            && let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx)
        {
            self.state = ReadState::Peeked(frame.map(|frame| frame.map_err(Into::into)));
        }
        if self.body.is_end_stream() { Some(self.peeked()) } else { self.size_hint().exact() }
    }

    /// Bytes of the peeked frame.
    fn peeked(&self) -> u64 {
        let ReadState::Peeked(Some(Ok(first))) = &self.state else { return 0 };
        first.data_ref().map_or(0, Bytes::len) as u64
    }
}

impl<B: RequestBody> Body for RewindableBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let (frame, is_first) = match std::mem::replace(&mut this.state, ReadState::Unread) {
            ReadState::Peeked(frame) => (frame, true),
            state => {
                let is_first = matches!(state, ReadState::Unread);
                this.state = state;
                let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
                (frame.map(|frame| frame.map_err(Into::into)), is_first)
            }
        };
        // The end can be read again.
        if let Some(frame) = &frame {
            let data = frame.as_ref().ok().and_then(Frame::data_ref);
            this.state = match data {
                Some(data) if is_first && data.len() <= MAX_KEPT => ReadState::FirstFrame(data.clone()),
                _ => ReadState::Lost,
            };
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        !matches!(self.state, ReadState::Peeked(Some(_))) && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, first) = (self.body.size_hint(), self.peeked());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(first));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(first));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn small_body_is_read_again_from_its_start() {
        let mut body = RewindableBody::new(Full::new(Bytes::from("all")));
        for _ in 0..3 {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
            assert_eq!((&mut body).collect().await.unwrap().to_bytes(), "all");
            assert!(body.rewind());
        }
    }

    #[tokio::test]
    async fn body_of_more_than_its_first_frame_is_lost() {
        let frames = ["a", "b"].map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from(part))));
        let mut body = RewindableBody::new(StreamBody::new(stream::iter(frames)));
        assert!(body.rewind());
        body.frame().await.unwrap().unwrap();
        assert!(body.rewind());
        assert_eq!((&mut body).collect().await.unwrap().to_bytes(), "ab");
        assert!(!body.rewind());

        let mut large = RewindableBody::new(Full::new(Bytes::from(vec![0; MAX_KEPT + 1])));
        large.frame().await.unwrap().unwrap();
        assert!(!large.rewind());
    }
}
