//! HeldBody: a request body that can be sent to one pod after another until one reads more than its
//! first frame.
//!
//! An HTTP client does not return the body of a request that failed. So the body stays here, and an
//! attempt takes it out with its first read. If the attempt ends before its second frame, the body
//! is put back: a first frame stays in memory as long as its attempt, and most bodies have only
//! one. So a small body can be sent again whole, and a large one as long as at most its first frame
//! was read.
//!
//! While a request waits, [`HeldBody::peek`] reads its first frame, which mostly arrived with the
//! head and is in memory in any case. A client that waits for 100 Continue gets it by that read.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// A body, unless an attempt has taken it.
#[derive(Debug)]
pub struct HeldBody<B: Body> {
    rest: Arc<Mutex<Option<PeekedBody<B>>>>,
}

/// The body of one attempt; takes the held body with its first read.
pub struct LentBody<B: Body> {
    held: Arc<Mutex<Option<PeekedBody<B>>>>,
    taken: Option<PeekedBody<B>>,
    progress: ReadProgress,
    is_end_stream: bool,
    size_hint: SizeHint,
}

/// Why an attempt cannot read the body.
#[derive(Debug, thiserror::Error)]
pub enum HeldBodyError<E> {
    /// Another attempt has it. Two attempts at a time would send a request twice, which must not
    /// happen.
    #[error("the body was taken by another attempt")]
    Taken,
    /// The client's connection or its framing failed.
    #[error(transparent)]
    Client(E),
}

/// How much an attempt has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadProgress {
    Nothing,
    /// The first frame, of which a copy is kept.
    First,
    More,
}

type ReadFrame<B> = Result<Frame<<B as Body>::Data>, <B as Body>::Error>;

struct PeekedBody<B: Body> {
    first: Option<ReadFrame<B>>,
    body: B,
}

// === impl HeldBody ===

impl<B: Body + Unpin> HeldBody<B> {
    /// Holds a body that was not read yet.
    pub fn new(body: B) -> Self {
        Self { rest: Arc::new(Mutex::new(Some(PeekedBody { first: None, body }))) }
    }

    /// Reads the first frame into memory; never completes.
    pub async fn peek(&self) -> Infallible {
        std::future::poll_fn(|cx| {
            if let Some(peeked) = self.rest.lock().as_mut() {
                peeked.fill(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// The body for one attempt.
    pub fn lend(&self) -> LentBody<B> {
        let (is_end_stream, size_hint) =
            self.rest.lock().as_ref().map_or((true, SizeHint::with_exact(0)), |peeked| {
                (peeked.is_end_stream(ReadProgress::Nothing), peeked.size_hint(ReadProgress::Nothing))
            });
        LentBody {
            held: self.rest.clone(),
            taken: None,
            progress: ReadProgress::Nothing,
            is_end_stream,
            size_hint,
        }
    }

    /// Whether nothing is lost and no attempt has it.
    pub fn is_whole(&self) -> bool {
        self.rest.lock().is_some()
    }
}

// === impl LentBody ===

impl<B: Body + Unpin> Body for LentBody<B>
where
    B::Data: Clone + Unpin,
    B::Error: Unpin,
{
    type Data = B::Data;
    type Error = HeldBodyError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        if this.taken.is_none() {
            this.taken = this.held.lock().take();
        }
        let Some(peeked) = &mut this.taken else { return Poll::Ready(Some(Err(HeldBodyError::Taken))) };
        let frame = ready!(peeked.poll_next(&mut this.progress, cx));
        Poll::Ready(frame.map(|frame| frame.map_err(HeldBodyError::Client)))
    }

    fn is_end_stream(&self) -> bool {
        self.taken.as_ref().map_or(self.is_end_stream, |taken| taken.is_end_stream(self.progress))
    }

    fn size_hint(&self) -> SizeHint {
        self.taken.as_ref().map_or(self.size_hint, |taken| taken.size_hint(self.progress))
    }
}

impl<B: Body> Drop for LentBody<B> {
    fn drop(&mut self) {
        if self.progress != ReadProgress::More
            && let Some(peeked) = self.taken.take()
        {
            *self.held.lock() = Some(peeked);
        }
    }
}

impl<B: Body> fmt::Debug for LentBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentBody").field("taken", &self.taken).finish_non_exhaustive()
    }
}

// === impl PeekedBody ===

impl<B: Body> fmt::Debug for PeekedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeekedBody").finish_non_exhaustive()
    }
}

impl<B: Body + Unpin> PeekedBody<B> {
    fn fill(&mut self, cx: &mut Context<'_>) {
        if self.first.is_some() || self.body.is_end_stream() {
            return;
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.first = frame;
        }
    }

    /// The next frame for an attempt with this progress. The first frame is kept until the second
    /// one arrives, if it is data.
    fn poll_next(&mut self, progress: &mut ReadProgress, cx: &mut Context<'_>) -> Poll<Option<ReadFrame<B>>>
    where
        B::Data: Clone,
    {
        if *progress == ReadProgress::Nothing && self.first.is_none() {
            self.first = ready!(Pin::new(&mut self.body).poll_frame(cx));
        }
        if *progress == ReadProgress::Nothing {
            let kept = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref()).cloned();
            *progress = if kept.is_some() { ReadProgress::First } else { ReadProgress::More };
            return Poll::Ready(kept.map_or_else(|| self.first.take(), |data| Some(Ok(Frame::data(data)))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_some() {
            *progress = ReadProgress::More;
            self.first = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self, progress: ReadProgress) -> bool {
        (progress != ReadProgress::Nothing || self.first.is_none()) && self.body.is_end_stream()
    }

    /// The size of the first frame, if the attempt has not read it, and of the rest.
    fn size_hint(&self, progress: ReadProgress) -> SizeHint {
        let first = self.first.as_ref().filter(|_| progress == ReadProgress::Nothing);
        let data = first.and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
        let first = data.map_or(0, |data| bytes::Buf::remaining(data) as u64);
        let rest = self.body.size_hint();
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
    use bytes::Bytes;
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    fn body() -> impl Body<Data = Bytes, Error = Infallible> + Unpin + std::fmt::Debug {
        let frames = ["a", "b"].map(|part| Ok(Frame::data(Bytes::from(part))));
        StreamBody::new(futures::stream::iter(frames))
    }

    #[tokio::test]
    async fn unread_attempt_leaves_body_to_the_next() {
        let held = HeldBody::new(body());
        drop(held.lend());
        assert!(held.is_whole());
        assert_eq!(held.lend().collect().await.unwrap().to_bytes(), "ab");
        assert!(!held.is_whole());
        assert!(matches!(held.lend().collect().await, Err(HeldBodyError::Taken)));
    }

    #[tokio::test]
    async fn attempt_that_read_one_frame_gives_body_back() {
        let held = HeldBody::new(body());
        let mut attempt = held.lend();
        assert_eq!(attempt.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
        assert!(!held.is_whole(), "the attempt may continue");
        drop(attempt);
        assert!(held.is_whole());
        assert_eq!(held.lend().collect().await.unwrap().to_bytes(), "ab");

        let small = HeldBody::new(http_body_util::Full::new(Bytes::from("all")));
        for _ in 0..2 {
            let attempt = small.lend();
            assert_eq!(attempt.size_hint().exact(), Some(3));
            assert_eq!(attempt.collect().await.unwrap().to_bytes(), "all");
        }
    }

    #[tokio::test]
    async fn peeked_frame_is_sent_first() {
        let held = HeldBody::new(http_body_util::Full::new(Bytes::from("all")));
        for _ in 0..2 {
            tokio::select! { biased; never = held.peek() => match never {}, () = std::future::ready(()) => {} }
        }
        let lent = held.lend();
        assert!(!lent.is_end_stream());
        assert_eq!(lent.size_hint().exact(), Some(3));
        assert_eq!(lent.collect().await.unwrap().to_bytes(), "all");
    }
}
