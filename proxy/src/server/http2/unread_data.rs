//! UnreadData: what the uploads of a connection take of the memory budget while nothing reads them.
//!
//! A client may fill the window of each of its streams. That data is in memory from its arrival
//! until the handler reads it, so it is part of the budget. Where the budget has no more, the
//! upload with the most of it is reset.
//!
//! h2 counts the unread bytes of each stream, and a sum takes a lock for each. They cannot grow by
//! more than was received meanwhile, so there is a sum only after as many bytes as are free.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::stream_set::StreamSet;
use crate::server::connection_guard::ConnectionGuard;

/// Unread bytes that the memory of a connection has room for.
const FREE: usize = 16 << 10;
/// What is taken at a time.
const PART: usize = 64 << 10;

/// The unread data of one connection.
pub(super) struct UnreadData<'a, G: ConnectionGuard> {
    guard: &'a G,
    received: Arc<AtomicUsize>,
    parts: Vec<G::Permit>,
    /// Of the last sum: unread and received bytes, and uploads.
    unread_then: usize,
    received_then: usize,
    uploads_then: usize,
}

// === impl UnreadData ===

impl<'a, G: ConnectionGuard> UnreadData<'a, G> {
    /// Takes the memory from the budget of `guard`; `received` counts the bytes of the connection,
    /// and wraps around.
    pub(super) fn new(guard: &'a G, received: Arc<AtomicUsize>) -> Self {
        Self { guard, received, parts: Vec::new(), unread_then: 0, received_then: 0, uploads_then: 0 }
    }

    /// Adjusts what is taken to the unread data of `streams`. Called when frames were received or
    /// streams polled.
    pub(super) fn account<F: Future<Output = ()>>(&mut self, streams: &mut StreamSet<F>) {
        let received = self.received.load(Ordering::Relaxed);
        let may_be_unread = self.unread_then.saturating_add(received.wrapping_sub(self.received_then));
        let may_exceed = may_be_unread > FREE + self.parts.len() * PART;
        let may_release = !self.parts.is_empty() && streams.uploads() < self.uploads_then;
        if !may_exceed && !may_release {
            return;
        }
        loop {
            let unread = streams.unread();
            (self.unread_then, self.received_then) = (unread, received);
            if self.take(unread.saturating_sub(FREE).div_ceil(PART)) || !streams.end_largest_upload() {
                break;
            }
        }
        self.uploads_then = streams.uploads();
    }

    /// False if the budget does not have so many parts.
    fn take(&mut self, parts: usize) -> bool {
        self.parts.truncate(parts);
        while self.parts.len() < parts {
            match self.guard.take_memory(PART as u64) {
                Some(part) => self.parts.push(part),
                None => return false,
            }
        }
        true
    }
}
