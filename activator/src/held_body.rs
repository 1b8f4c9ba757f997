//! HeldBody: a request's body that can be offered to one pod after another until one starts to read it.
//!
//! What sends a request does not give it back when that fails. So the body stays here, and an attempt takes it out with its
//! first read. If it ends before its second frame, it puts everything back: a first frame stays in memory as long as its
//! attempt does, and most bodies have no other. So a small body may be sent again whole, and a large one as long as little of
//! it was asked for.
//!
//! While a request waits, [`HeldBody::peek`] reads its first frame (which has arrived with the head, mostly, and is in
//! memory in any case). An HTTP/1 server notices that a caller hung up only when it has nothing left to read.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;

/// A body that is not with an attempt, or is not whole any more.
#[derive(Debug)]
pub struct HeldBody<B: Body> {
    rest: Arc<Mutex<Option<Peeked<B>>>>,
}

/// What is sent; empty until its first read.
pub struct LentBody<B: Body> {
    held: Arc<Mutex<Option<Peeked<B>>>>,
    taken: Option<Peeked<B>>,
    read: Read,
    is_end_stream: bool,
    size_hint: SizeHint,
}

/// The body was taken by another attempt, or the request's own body failed.
#[derive(Debug, thiserror::Error)]
pub enum Error<E> {
    /// Two attempts read: a request was sent twice, which must not happen.
    #[error("the body was taken already")]
    Taken,
    /// The caller's side failed.
    #[error(transparent)]
    Caller(E),
}

/// What an attempt has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Nothing,
    /// The first frame, which is still there.
    First,
    More,
}

type ReadFrame<B> = Result<Frame<<B as Body>::Data>, <B as Body>::Error>;

struct Peeked<B: Body> {
    first: Option<ReadFrame<B>>,
    body: B,
}

// === impl HeldBody ===

impl<B: Body + Unpin> HeldBody<B> {
    /// Holds a body of which nothing was read.
    pub fn new(body: B) -> Self {
        Self { rest: Arc::new(Mutex::new(Some(Peeked { first: None, body }))) }
    }

    /// Reads the first frame into memory, if there is any; never ends.
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
                (peeked.is_end_stream(Read::Nothing), peeked.size_hint(Read::Nothing))
            });
        LentBody { held: self.rest.clone(), taken: None, read: Read::Nothing, is_end_stream, size_hint }
    }

    /// Whether all of it is here, and with no attempt.
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
    type Error = Error<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        if this.taken.is_none() {
            this.taken = this.held.lock().take();
        }
        let Some(peeked) = &mut this.taken else { return Poll::Ready(Some(Err(Error::Taken))) };
        let frame = ready!(peeked.poll_next(&mut this.read, cx));
        Poll::Ready(frame.map(|frame| frame.map_err(Error::Caller)))
    }

    fn is_end_stream(&self) -> bool {
        self.taken.as_ref().map_or(self.is_end_stream, |taken| taken.is_end_stream(self.read))
    }

    fn size_hint(&self) -> SizeHint {
        self.taken.as_ref().map_or(self.size_hint, |taken| taken.size_hint(self.read))
    }
}

impl<B: Body> Drop for LentBody<B> {
    fn drop(&mut self) {
        if self.read != Read::More
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

// === impl Peeked ===

impl<B: Body> fmt::Debug for Peeked<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peeked").finish_non_exhaustive()
    }
}

impl<B: Body + Unpin> Peeked<B> {
    fn fill(&mut self, cx: &mut Context<'_>) {
        if self.first.is_some() || self.body.is_end_stream() {
            return;
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.first = frame;
        }
    }

    /// The next frame for who has `read` so much. The first one stays until there is a second, if it can.
    fn poll_next(&mut self, read: &mut Read, cx: &mut Context<'_>) -> Poll<Option<ReadFrame<B>>>
    where
        B::Data: Clone,
    {
        if *read == Read::Nothing && self.first.is_none() {
            self.first = ready!(Pin::new(&mut self.body).poll_frame(cx));
        }
        if *read == Read::Nothing {
            let kept = self.first.as_ref().and_then(|first| first.as_ref().ok()?.data_ref()).cloned();
            *read = if kept.is_some() { Read::First } else { Read::More };
            return Poll::Ready(kept.map_or_else(|| self.first.take(), |data| Some(Ok(Frame::data(data)))));
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_some() {
            *read = Read::More;
            self.first = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self, read: Read) -> bool {
        (read != Read::Nothing || self.first.is_none()) && self.body.is_end_stream()
    }

    /// What is in memory and what is still to come.
    fn size_hint(&self, read: Read) -> SizeHint {
        let first = self.first.as_ref().filter(|_| read == Read::Nothing);
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
    async fn an_attempt_that_reads_nothing_leaves_everything_to_the_next() {
        let held = HeldBody::new(body());
        drop(held.lend());
        assert!(held.is_whole());
        assert_eq!(held.lend().collect().await.unwrap().to_bytes(), "ab");
        assert!(!held.is_whole());
        assert!(matches!(held.lend().collect().await, Err(Error::Taken)));
    }

    #[tokio::test]
    async fn an_attempt_that_reads_one_frame_gives_it_back() {
        let held = HeldBody::new(body());
        let mut attempt = held.lend();
        assert_eq!(attempt.frame().await.unwrap().unwrap().into_data().unwrap(), "a");
        assert!(!held.is_whole(), "the attempt may go on");
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
    async fn what_was_peeked_is_sent_first() {
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
