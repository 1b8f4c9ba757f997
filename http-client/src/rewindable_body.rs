//! RewindableBody: a request body that can be sent again while all that was read of it is in
//! memory: its first frame, and further ones up to 16 KiB in all.
//!
//! Most bodies are one small message, such as that of a gRPC call, in one frame or in a few: many
//! clients end a body with an empty frame, or with trailers. So most requests can be sent again if
//! the server promises not to have processed them.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::error::BoxError;
use crate::request_body::RequestBody;

/// Most bytes of more than one frame that are kept.
const MAX_KEPT: usize = 16 * 1024;

/// A body, and the frames that were read of it.
#[derive(Debug)]
pub struct RewindableBody<B> {
    body: B,
    /// `None` after a frame was lost.
    kept: Option<KeptFrames>,
    next: NextFrame,
}

/// Data is kept as one frame.
#[derive(Debug, Default)]
struct KeptFrames {
    data: Bytes,
    /// Boxed, because few bodies have any, and each connection has the space.
    trailers: Option<Box<HeaderMap>>,
}

/// What is read next.
#[derive(Debug)]
enum NextFrame {
    KeptData,
    KeptTrailers,
    /// A frame that is not kept.
    Error(BoxError),
    OfBody,
}

// === impl RewindableBody ===

impl<B: RequestBody> RewindableBody<B> {
    /// A body that was not read yet.
    pub fn new(body: B) -> Self {
        Self { body, kept: Some(KeptFrames::default()), next: NextFrame::OfBody }
    }

    /// Starts again from the first byte; false if that is lost.
    pub fn rewind(&mut self) -> bool {
        if self.kept.is_some() {
            self.next = NextFrame::KeptData;
        }
        self.kept.is_some()
    }

    /// Reads the first frame into memory, if it has arrived.
    pub fn peek(&mut self, cx: &mut Context<'_>) {
        let is_unread = matches!(self.next, NextFrame::OfBody)
            && self.kept.as_ref().is_some_and(KeptFrames::is_empty)
            && !self.body.is_end_stream();
        if is_unread && let Poll::Ready(Some(frame)) = Pin::new(&mut self.body).poll_frame(cx) {
            self.next = match frame {
                Ok(frame) => {
                    self.keep(&frame);
                    NextFrame::KeptData
                }
                Err(error) => {
                    self.kept = None;
                    NextFrame::Error(error.into())
                }
            };
        }
    }

    /// The number of bytes that are left to read, if it is known. Reads the first frame if it has
    /// arrived: most gRPC calls send one message, without a length.
    pub(crate) fn length(&mut self, cx: &mut Context<'_>) -> Option<u64> {
        if self.size_hint().exact().is_none() {
            self.peek(cx);
        }
        if self.body.is_end_stream() { Some(self.kept_data()) } else { self.size_hint().exact() }
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let is_kept = self.kept.as_mut().is_some_and(|kept| kept.add(frame));
        if !is_kept {
            self.kept = None;
        }
    }

    /// Bytes of kept data that are read next.
    fn kept_data(&self) -> u64 {
        let kept = self.kept.as_ref().filter(|_| matches!(self.next, NextFrame::KeptData));
        kept.map_or(0, |kept| kept.data.len() as u64)
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
        loop {
            match std::mem::replace(&mut this.next, NextFrame::OfBody) {
                NextFrame::KeptData => {
                    this.next = NextFrame::KeptTrailers;
                    let kept = this.kept.as_ref().filter(|kept| !kept.data.is_empty());
                    if let Some(kept) = kept {
                        return Poll::Ready(Some(Ok(Frame::data(kept.data.clone()))));
                    }
                }
                NextFrame::KeptTrailers => {
                    if let Some(trailers) = this.kept.as_ref().and_then(|kept| kept.trailers.clone()) {
                        return Poll::Ready(Some(Ok(Frame::trailers(*trailers))));
                    }
                }
                NextFrame::Error(error) => return Poll::Ready(Some(Err(error))),
                NextFrame::OfBody => break,
            }
        }
        let frame = ready!(Pin::new(&mut this.body).poll_frame(cx));
        // The end can be read again.
        match &frame {
            Some(Ok(frame)) => this.keep(frame),
            Some(Err(_)) => this.kept = None,
            None => {}
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        let has_trailers = || self.kept.as_ref().is_some_and(|kept| kept.trailers.is_some());
        let has_kept = match self.next {
            NextFrame::KeptData => self.kept_data() > 0 || has_trailers(),
            NextFrame::KeptTrailers => has_trailers(),
            NextFrame::Error(_) => true,
            NextFrame::OfBody => false,
        };
        !has_kept && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (rest, kept) = (self.body.size_hint(), self.kept_data());
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(kept));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(kept));
        }
        hint
    }
}

// === impl KeptFrames ===

impl KeptFrames {
    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    /// False if the frame does not fit.
    fn add(&mut self, frame: &Frame<Bytes>) -> bool {
        if let Some(trailers) = frame.trailers_ref() {
            self.trailers = Some(Box::new(trailers.clone()));
        }
        match frame.data_ref() {
            Some(data) if self.data.is_empty() => self.data = data.clone(),
            Some(data) if self.data.len() + data.len() > MAX_KEPT => return false,
            Some(data) if !data.is_empty() => {
                let before = std::mem::take(&mut self.data);
                let mut all = before.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
                all.extend_from_slice(data);
                self.data = all.freeze();
            }
            Some(_) | None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::{BodyExt, Full, StreamBody};

    use super::*;

    fn body_of(frames: Vec<Frame<Bytes>>) -> RewindableBody<impl RequestBody> {
        RewindableBody::new(StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Infallible>))))
    }

    fn data(length: usize) -> Frame<Bytes> {
        Frame::data(Bytes::from(vec![b'x'; length]))
    }

    #[tokio::test]
    async fn small_body_is_read_again_from_its_start() {
        let mut body = RewindableBody::new(Full::new(Bytes::from("all")));
        for _ in 0..3 {
            assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
            assert_eq!((&mut body).collect().await.unwrap().to_bytes(), "all");
            assert!(body.is_end_stream() && body.rewind());
        }
    }

    #[tokio::test]
    async fn body_of_several_frames_is_read_again_with_its_trailers() {
        let sum = HeaderMap::from_iter([("x-sum".parse().unwrap(), "1".parse().unwrap())]);
        let mut body = body_of(vec![data(0), data(3), data(0), data(4), Frame::trailers(sum.clone())]);
        for _ in 0..3 {
            let read = (&mut body).collect().await.unwrap();
            assert_eq!(read.trailers(), Some(&sum));
            assert_eq!(read.to_bytes().len(), 7);
            assert!(body.rewind());
        }
        // Also if it fails in its middle.
        body.frame().await.unwrap().unwrap();
        assert!(body.rewind() && !body.is_end_stream());
        assert_eq!((&mut body).collect().await.unwrap().to_bytes().len(), 7);
    }

    #[tokio::test]
    async fn body_is_lost_with_the_frame_that_exceeds_the_bound() {
        for (last, is_kept) in [(MAX_KEPT - 2, true), (MAX_KEPT - 1, false)] {
            let mut body = body_of(vec![data(1), data(1), data(last), data(0)]);
            let all = (&mut body).collect().await.unwrap().to_bytes();
            assert_eq!((all.len(), body.rewind()), (last + 2, is_kept));
        }
        let mut large = body_of(vec![data(MAX_KEPT + 1), data(0), data(1)]);
        large.frame().await.unwrap().unwrap();
        assert!(large.rewind(), "a first frame is in memory in any case");
        assert_eq!((&mut large).collect().await.unwrap().to_bytes().len(), MAX_KEPT + 2);
        assert!(!large.rewind());
    }

    #[tokio::test]
    async fn body_that_fails_is_lost() {
        let frames = [Ok(Frame::data(Bytes::from("a"))), Err("left")];
        let mut body = RewindableBody::new(StreamBody::new(stream::iter(frames)));
        (&mut body).collect().await.unwrap_err();
        assert!(!body.rewind());
    }
}
