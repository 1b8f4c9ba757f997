//! HeldBody: a request's body that can be offered to one pod after another until one starts to read it.
//!
//! The client library does not give a request back when its connection is refused. So the body stays here, and what is sent
//! takes it out with its first read: as long as it was not taken, nothing was sent, and the request may go elsewhere.
//!
//! While a request waits, [`HeldBody::peek`] reads its first frame (which has arrived with the head, mostly, and is in
//! memory in any case). An HTTP/1 server notices that a caller hung up only when it has nothing left to read.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};

/// A body that waits to be taken.
#[derive(Debug)]
pub struct HeldBody<B: Body> {
    rest: Arc<Mutex<Option<Peeked<B>>>>,
}

/// What is sent; empty until its first read.
#[derive(Debug)]
pub struct LentBody<B: Body> {
    held: Arc<Mutex<Option<Peeked<B>>>>,
    taken: Option<Peeked<B>>,
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
            if let Some(peeked) = lock(&self.rest).as_mut() {
                peeked.fill(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// The body for one attempt.
    pub fn lend(&self) -> LentBody<B> {
        let (is_end_stream, size_hint) = lock(&self.rest)
            .as_ref()
            .map_or((true, SizeHint::with_exact(0)), |peeked| (peeked.is_end_stream(), peeked.size_hint()));
        LentBody { held: self.rest.clone(), taken: None, is_end_stream, size_hint }
    }

    /// Whether no attempt has read any of it.
    pub fn is_whole(&self) -> bool {
        lock(&self.rest).is_some()
    }
}

// === impl LentBody ===

impl<B: Body + Unpin> Body for LentBody<B>
where
    B::Data: Unpin,
    B::Error: Unpin,
{
    type Data = B::Data;
    type Error = Error<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.taken.is_none() {
            let taken = lock(&self.held).take();
            self.taken = taken;
        }
        match &mut self.taken {
            Some(peeked) => peeked.poll_frame(cx).map_err(Error::Caller),
            None => Poll::Ready(Some(Err(Error::Taken))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.taken.as_ref().map_or(self.is_end_stream, Peeked::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.taken.as_ref().map_or(self.size_hint, Peeked::size_hint)
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

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<ReadFrame<B>>> {
        match self.first.take() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.body.is_end_stream()
    }

    /// What is in memory and what is still to come.
    fn size_hint(&self) -> SizeHint {
        let data = self.first.as_ref().and_then(|frame| frame.as_ref().ok()).and_then(Frame::data_ref);
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
