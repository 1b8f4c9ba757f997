//! Holds a request's guard (slot, count, timer) until its response body ends.
//!
//! A handler returns with the head of the response; a guard dropped there would not cover streamed
//! bodies. So the guard travels in the body. It is dropped at the body's last frame, at its error,
//! or when the body is dropped (the client disconnected), whichever comes first.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A body that owns a guard until it is complete.
    #[derive(Debug)]
    pub struct TrackedBody<B, G> {
        #[pin]
        inner: B,
        guard: Option<G>,
    }
}

impl<B: Body, G> TrackedBody<B, G> {
    /// Ties `guard` to `body`. An empty body drops the guard at once.
    pub fn new(body: B, guard: G) -> Self {
        let guard = if body.is_end_stream() { None } else { Some(guard) };
        Self { inner: body, guard }
    }
}

impl<B: Body, G> Body for TrackedBody<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.inner.as_mut().poll_frame(cx));
        // A caller that sees `is_end_stream` need not poll again, so the last frame drops the guard
        // as well.
        if !matches!(frame, Some(Ok(_))) || this.inner.is_end_stream() {
            *this.guard = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use bytes::Bytes;
    use http_body_util::{BodyExt, Empty, Full, StreamBody};

    use super::*;

    #[tokio::test]
    async fn drops_guard_at_end_of_body() {
        let slot = Arc::new(());
        let frames = ["a", "b"].map(|part| Ok::<_, Infallible>(Frame::data(Bytes::from(part))));
        let mut body = TrackedBody::new(StreamBody::new(futures::stream::iter(frames)), slot.clone());
        for _ in 0..2 {
            body.frame().await.unwrap().unwrap();
            assert_eq!(Arc::strong_count(&slot), 2);
        }
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&slot), 1);
    }

    #[tokio::test]
    async fn drops_guard_with_last_frame_of_sized_body() {
        let slot = Arc::new(());
        let mut body = TrackedBody::new(Full::new(Bytes::from("all")), slot.clone());
        body.frame().await.unwrap().unwrap();
        assert_eq!(Arc::strong_count(&slot), 1);
    }

    #[test]
    fn drops_guard_when_body_is_dropped_or_empty() {
        let slot = Arc::new(());
        let body = TrackedBody::new(Full::new(Bytes::from("all")), slot.clone());
        assert_eq!(Arc::strong_count(&slot), 2);
        drop(body);
        assert_eq!(Arc::strong_count(&slot), 1);
        let _empty = TrackedBody::new(Empty::<Bytes>::new(), slot.clone());
        assert_eq!(Arc::strong_count(&slot), 1);
    }
}
