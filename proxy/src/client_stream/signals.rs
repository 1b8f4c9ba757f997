//! ClientSignals: what a connection, its server and the body of its request report to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use parking_lot::Mutex;

use super::unread_upload::UnreadUpload;

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
    /// The next response that begins is the last one.
    is_last: AtomicBool,
    is_tunnel: AtomicBool,
    upload: UnreadUpload,
    /// The response has begun, or is `refusal`.
    has_response: AtomicBool,
    /// The response in place of the handler's.
    refusal: Mutex<Option<Box<Response<Full<Bytes>>>>>,
}

// === impl ClientSignals ===

impl ClientSignals {
    /// The server waits for a head.
    pub(crate) fn begin_head(&self) {
        self.0.received.store(false, Ordering::Relaxed);
        self.0.in_request.store(false, Ordering::Relaxed);
    }

    pub(super) fn receive(&self, bytes: usize) {
        self.0.received.store(true, Ordering::Relaxed);
        if self.is_in_request() {
            self.0.upload.receive(bytes);
        }
    }

    /// The server waits for bytes of the client.
    pub(super) fn await_bytes(&self) {
        if self.is_in_request() {
            self.0.upload.await_bytes();
        }
    }

    /// The upload of the request.
    pub(crate) fn upload(&self) -> &UnreadUpload {
        &self.0.upload
    }

    /// What the connection keeps in memory because the app does not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.0.upload.bytes()
    }

    pub(crate) fn has_received(&self) -> bool {
        self.0.received.load(Ordering::Relaxed)
    }

    /// The head of a request is complete. Its client may read the response until the connection
    /// closes, as one of HTTP/1.0 does.
    pub(crate) fn begin_request(&self, reads_until_close: bool) {
        self.0.in_request.store(true, Ordering::Relaxed);
        self.0.reads_until_close.store(reads_until_close, Ordering::Relaxed);
        self.0.has_response.store(false, Ordering::Relaxed);
        self.0.upload.end();
    }

    /// The handler has responded.
    pub(crate) fn begin_response(&self) {
        self.0.has_response.store(true, Ordering::Relaxed);
    }

    /// The request gets `response`, unless it has one.
    pub(crate) fn refuse(&self, response: Box<Response<Full<Bytes>>>) -> bool {
        let refused = self.is_in_request() && !self.0.has_response.swap(true, Ordering::Relaxed);
        if refused {
            *self.0.refusal.lock() = Some(response);
        }
        refused
    }

    pub(crate) fn take_refusal(&self) -> Option<Box<Response<Full<Bytes>>>> {
        if !self.0.has_response.load(Ordering::Relaxed) {
            return None;
        }
        self.0.refusal.lock().take()
    }

    pub(super) fn is_in_request(&self) -> bool {
        self.0.in_request.load(Ordering::Relaxed)
    }

    /// The body of the request was dropped before its end, or is malformed.
    pub(crate) fn cut_upload(&self) {
        self.0.upload_cut.store(true, Ordering::Relaxed);
    }

    fn is_upload_cut(&self) -> bool {
        self.0.upload_cut.load(Ordering::Relaxed)
    }

    /// The server takes no request after the one that runs, or that has arrived.
    pub(crate) fn end_after_response(&self) {
        self.0.is_last.store(true, Ordering::Relaxed);
    }

    /// Whether the connection closes behind the response that begins.
    pub(crate) fn closes_after_response(&self) -> bool {
        self.is_upload_cut() || self.0.is_last.load(Ordering::Relaxed)
    }

    /// The client may be sending: the rest of an upload, or of a head that was rejected. What it
    /// sends on a tunnel is the app's, and the side of the app may be closed.
    pub(super) fn may_be_sending(&self) -> bool {
        let is_rest = self.is_upload_cut() || (self.has_received() && !self.is_in_request());
        is_rest && !self.0.is_tunnel.load(Ordering::Relaxed)
    }

    /// The connection is a tunnel from now on.
    pub(super) fn switch_protocol(&self) {
        self.begin_head();
        self.0.is_tunnel.store(true, Ordering::Relaxed);
    }

    /// The end of the connection may be the end of the response.
    pub(super) fn may_read_until_close(&self) -> bool {
        self.is_in_request() && self.0.reads_until_close.load(Ordering::Relaxed)
    }
}
