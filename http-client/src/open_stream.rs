//! OpenStream: counts one stream of a connection until its request and its response have ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The streams of one connection that are in use.
#[derive(Debug)]
pub(crate) struct StreamCount {
    open: AtomicUsize,
    /// End of the last stream.
    last_end: Mutex<Instant>,
    /// Notified at the end of each stream; shared by the connections of a pool.
    freed: Arc<Notify>,
}

/// A stream in use. The request body and the response body share it: HTTP/2 counts a stream until
/// both have ended.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<StreamCount>);

/// A request body that holds its stream.
#[derive(Debug)]
pub(crate) struct StreamBody<B> {
    inner: B,
    _stream: Arc<OpenStream>,
}

// === impl StreamCount ===

impl StreamCount {
    pub(crate) fn new(freed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { open: AtomicUsize::new(0), last_end: Mutex::new(Instant::now()), freed })
    }

    /// Opens a stream, unless `bound` are open.
    pub(crate) fn open(self: &Arc<Self>, bound: usize) -> Option<Arc<OpenStream>> {
        let below = |open| (open < bound).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, below).ok()?;
        Some(Arc::new(OpenStream(self.clone())))
    }

    /// Since when there is no stream; `None` if there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.open.load(Ordering::Acquire) == 0).then(|| *self.last_end.lock())
    }
}

// === impl OpenStream ===

impl Drop for OpenStream {
    fn drop(&mut self) {
        *self.0.last_end.lock() = Instant::now();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}

// === impl StreamBody ===

impl<B> StreamBody<B> {
    pub(crate) fn new(inner: B, stream: Arc<OpenStream>) -> Self {
        Self { inner, _stream: stream }
    }

    pub(crate) fn into_inner(self) -> B {
        self.inner
    }
}

impl<B: Body + Unpin> Body for StreamBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.inner).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
