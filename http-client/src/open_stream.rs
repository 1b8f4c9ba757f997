//! OpenStream: counts one stream of a connection until its request and its response have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// The streams of one connection that are in use.
#[derive(Debug)]
pub(crate) struct StreamCount {
    open: AtomicUsize,
    /// Bytes of their uploads.
    uploads: AtomicU64,
    /// True if the connection accepts no more streams.
    is_closed: AtomicBool,
    /// End of the last stream; of no meaning while there are streams.
    last_end: Mutex<Instant>,
    /// Notified at the end of each stream; shared by the connections of a pool.
    freed: Arc<Notify>,
}

/// A stream in use. The upload and the response body share it: HTTP/2 counts a stream until both
/// have ended.
#[derive(Debug)]
pub(crate) struct OpenStream {
    streams: Arc<StreamCount>,
    upload: u64,
}

// === impl StreamCount ===

impl StreamCount {
    pub(crate) fn new(freed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self {
            open: AtomicUsize::new(0),
            uploads: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            last_end: Mutex::new(Instant::now()),
            freed,
        })
    }

    /// Opens a stream for an upload of so many bytes, unless `bound` are open.
    pub(crate) fn open(self: &Arc<Self>, bound: usize, upload: u64) -> Option<Arc<OpenStream>> {
        let below = |open| (open < bound).then_some(open + 1);
        self.open.fetch_update(Ordering::AcqRel, Ordering::Acquire, below).ok()?;
        self.uploads.fetch_add(upload, Ordering::AcqRel);
        Some(Arc::new(OpenStream { streams: self.clone(), upload }))
    }

    pub(crate) fn count(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn uploads(&self) -> u64 {
        self.uploads.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Since when there is no stream; `None` if there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        (self.count() == 0).then(|| *self.last_end.lock())
    }
}

// === impl OpenStream ===

impl OpenStream {
    /// Closes its connection for further streams.
    pub(crate) fn close_connection(&self) {
        self.streams.close();
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.streams.uploads.fetch_sub(self.upload, Ordering::AcqRel);
        if self.streams.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Another thread may see the end of an earlier stream until now, and close the idle
            // connection too early. That harms no request.
            *self.streams.last_end.lock() = Instant::now();
        }
        self.streams.freed.notify_one();
    }
}
