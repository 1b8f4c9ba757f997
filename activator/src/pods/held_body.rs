//! HeldBody: a request body that can be sent to one pod after another until an attempt reads more
//! of it than is kept in memory.
//!
//! An HTTP client does not return the body of a request that failed. So the body stays here, and an
//! attempt takes it out with its first read. If the attempt ends before it has read too much, the
//! body is put back. So a small body can be sent again whole, and a large one as long as at most
//! its first frames were read.
//!
//! While a request waits, [`HeldBody::peek`] reads its first frame, which mostly arrived with the
//! head and is in memory in any case. A client that waits for 100 Continue gets it by that read.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_client::{BoxError, RequestBody, RewindableBody};
use parking_lot::Mutex;

/// A body, unless an attempt has taken it.
#[derive(Debug)]
pub struct HeldBody<B> {
    rest: Arc<Mutex<Option<RewindableBody<B>>>>,
}

/// The body of one attempt; takes the held body with its first read.
pub struct LentBody<B: RequestBody> {
    held: Arc<Mutex<Option<RewindableBody<B>>>>,
    taken: Option<RewindableBody<B>>,
    is_end_stream: bool,
    size_hint: SizeHint,
}

/// An attempt cannot read the body: two attempts at a time would send a request twice, which must
/// not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body was taken by another attempt")]
struct BodyTaken;

// === impl HeldBody ===

impl<B: RequestBody> HeldBody<B> {
    /// Holds a body that was not read yet.
    pub fn new(body: B) -> Self {
        Self { rest: Arc::new(Mutex::new(Some(RewindableBody::new(body)))) }
    }

    /// Reads the first frame into memory; never completes.
    pub async fn peek(&self) -> Infallible {
        std::future::poll_fn(|cx| {
            if let Some(body) = self.rest.lock().as_mut() {
                body.peek(cx);
            }
            Poll::Pending
        })
        .await
    }

    /// The body for one attempt.
    pub fn lend(&self) -> LentBody<B> {
        let (is_end_stream, size_hint) = self
            .rest
            .lock()
            .as_ref()
            .map_or((true, SizeHint::with_exact(0)), |body| (body.is_end_stream(), body.size_hint()));
        LentBody { held: self.rest.clone(), taken: None, is_end_stream, size_hint }
    }

    /// Whether nothing is lost and no attempt has it.
    pub fn is_whole(&self) -> bool {
        self.rest.lock().is_some()
    }
}

// === impl LentBody ===

impl<B: RequestBody> Body for LentBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        if this.taken.is_none() {
            this.taken = this.held.lock().take();
        }
        match &mut this.taken {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(Some(Err(BodyTaken.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.taken.as_ref().map_or(self.is_end_stream, RewindableBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.taken.as_ref().map_or(self.size_hint, RewindableBody::size_hint)
    }
}

impl<B: RequestBody> Drop for LentBody<B> {
    fn drop(&mut self) {
        if let Some(mut body) = self.taken.take()
            && body.rewind()
        {
            *self.held.lock() = Some(body);
        }
    }
}

impl<B: RequestBody> fmt::Debug for LentBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentBody").field("is_taken", &self.taken.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};

    use super::*;

    /// A body of frames with these lengths.
    fn held(lengths: [usize; 2]) -> HeldBody<impl RequestBody> {
        let frames = lengths.map(|length| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; length]))));
        HeldBody::new(StreamBody::new(futures::stream::iter(frames)))
    }

    async fn length(body: LentBody<impl RequestBody>) -> usize {
        body.collect().await.unwrap().to_bytes().len()
    }

    #[tokio::test]
    async fn unread_attempt_leaves_body_to_the_next() {
        let held = held([9, 16 << 10]);
        drop(held.lend());
        assert!(held.is_whole());
        assert_eq!(length(held.lend()).await, 9 + (16 << 10));
        assert!(!held.is_whole());
        assert!(held.lend().collect().await.is_err(), "it is lost");
    }

    #[tokio::test]
    async fn attempt_that_read_little_gives_body_back() {
        let held = held([9, 16 << 10]);
        let mut attempt = held.lend();
        assert_eq!(attempt.frame().await.unwrap().unwrap().into_data().unwrap().len(), 9);
        assert!(!held.is_whole(), "the attempt may continue");
        drop(attempt);
        assert!(held.is_whole());
        assert_eq!(length(held.lend()).await, 9 + (16 << 10));

        let small = HeldBody::new(http_body_util::Full::new(Bytes::from("all")));
        for _ in 0..2 {
            let attempt = small.lend();
            assert_eq!(attempt.size_hint().exact(), Some(3));
            assert_eq!(length(attempt).await, 3);
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
