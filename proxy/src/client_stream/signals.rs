//! ClientSignals: what a connection, its server and the body of its request report to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals of one connection. All that depends on their order runs in one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSignals(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    /// Bytes have arrived since the server began to wait for a head.
    received: AtomicBool,
    /// A request was received, and the server does not wait for the next head yet.
    in_request: AtomicBool,
    /// The server does not read a request's body to its end.
    upload_cut: AtomicBool,
    /// The client may read the response until the connection closes.
    reads_until_close: AtomicBool,
    /// The close is a reset.
    aborts: AtomicBool,
}

// === impl ClientSignals ===

impl ClientSignals {
    /// The server waits for a head.
    pub(crate) fn begin_head(&self) {
        self.0.received.store(false, Ordering::Relaxed);
        self.0.in_request.store(false, Ordering::Relaxed);
    }

    pub(super) fn receive(&self) {
        self.0.received.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_received(&self) -> bool {
        self.0.received.load(Ordering::Relaxed)
    }

    /// The head of a request is complete. Its client may read the response until the connection
    /// closes, as one of HTTP/1.0 does.
    pub(crate) fn begin_request(&self, reads_until_close: bool) {
        self.0.in_request.store(true, Ordering::Relaxed);
        self.0.reads_until_close.store(reads_until_close, Ordering::Relaxed);
    }

    pub(super) fn is_in_request(&self) -> bool {
        self.0.in_request.load(Ordering::Relaxed)
    }

    /// The body of the request was dropped before its end, or is malformed.
    pub(crate) fn cut_upload(&self) {
        self.0.upload_cut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_upload_cut(&self) -> bool {
        self.0.upload_cut.load(Ordering::Relaxed)
    }

    /// The client may be sending: the rest of an upload, or of a head that was rejected.
    pub(super) fn may_be_sending(&self) -> bool {
        self.is_upload_cut() || (self.has_received() && !self.is_in_request())
    }

    /// The connection is a tunnel from now on.
    pub(super) fn switch_protocol(&self) {
        self.begin_head();
        self.0.upload_cut.store(false, Ordering::Relaxed);
    }

    /// The response was cut; the close of the connection must not look like its end.
    pub(crate) fn cut_response(&self) {
        self.0.aborts.store(self.0.reads_until_close.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn aborts(&self) -> bool {
        self.0.aborts.load(Ordering::Relaxed)
    }
}
