//! UnreadUpload: what a connection of HTTP/1 keeps of an upload that the app does not read.
//!
//! hyper reads up to 64 KiB at a time, and has one frame wait for the request's body, which waits
//! for the app's connection. The bytes of a read stay in memory until its last frame is sent on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The largest read of hyper, as large as a head may be.
const LARGEST_READ: usize = 64 << 10;
/// Frames that wait at a time, at most: one with the app's connection, one for it, and one with
/// hyper. The sum of what was received could be larger, for it includes the heads of chunks.
const MOST_UNREAD: usize = 3 * LARGEST_READ;

/// Counts the bytes of one upload at a time.
#[derive(Debug, Default)]
pub(crate) struct UnreadUpload {
    /// Received, and not sent on.
    unread: AtomicUsize,
    /// Of these, the last read of hyper, unless it was taken apart to its end.
    last_read: AtomicUsize,
    /// All frames were sent on.
    body_waits: AtomicBool,
}

// === impl UnreadUpload ===

impl UnreadUpload {
    /// hyper has read so many bytes.
    pub(super) fn receive(&self, bytes: usize) {
        self.last_read.store(bytes, Ordering::Relaxed);
        self.update(|unread| (unread + bytes).min(MOST_UNREAD));
    }

    /// hyper has no bytes left, and waits for more.
    pub(super) fn await_bytes(&self) {
        self.last_read.store(0, Ordering::Relaxed);
        if self.body_waits.load(Ordering::Relaxed) {
            self.unread.store(0, Ordering::Relaxed);
        }
    }

    /// Frames of so many bytes were sent on, and the next one is read.
    pub(crate) fn send_on(&self, bytes: usize) {
        self.body_waits.store(false, Ordering::Relaxed);
        self.update(|unread| unread.saturating_sub(bytes));
    }

    /// All frames were sent on, and the next one is awaited.
    pub(crate) fn send_on_all(&self) {
        self.body_waits.store(true, Ordering::Relaxed);
        let last_read = self.last_read.load(Ordering::Relaxed);
        self.update(|unread| unread.min(last_read));
    }

    /// The upload was sent on to its end, or dropped.
    pub(crate) fn end(&self) {
        self.unread.store(0, Ordering::Relaxed);
        self.last_read.store(0, Ordering::Relaxed);
        self.body_waits.store(false, Ordering::Relaxed);
    }

    /// Bytes in memory, with hyper's buffer for the next read.
    pub(super) fn bytes(&self) -> usize {
        let unread = self.unread.load(Ordering::Relaxed);
        unread + unread.min(LARGEST_READ)
    }

    /// The body may be read in another task than that of the connection.
    fn update(&self, to: impl Fn(usize) -> usize) {
        let _ = self.unread.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |unread| Some(to(unread)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: usize = LARGEST_READ;

    #[test]
    fn stalled_upload_keeps_its_frames_and_a_buffer() {
        let upload = UnreadUpload::default();
        upload.receive(READ);
        upload.send_on(0);
        upload.receive(READ);
        assert_eq!(upload.bytes(), 3 * READ);
        (0..10).for_each(|_| upload.receive(READ));
        assert_eq!(upload.bytes(), 4 * READ, "no more than can wait at a time");
    }

    #[test]
    fn small_chunks_keep_the_read_that_they_are_in() {
        let upload = UnreadUpload::default();
        upload.receive(READ);
        for _ in 0..100 {
            upload.send_on(16);
            upload.send_on_all();
        }
        assert!(upload.bytes() > READ);
        upload.await_bytes();
        assert_eq!(upload.bytes(), 0, "nothing is left of a read behind which hyper waits");
    }

    #[test]
    fn upload_of_a_slow_client_keeps_nothing_in_the_end() {
        let upload = UnreadUpload::default();
        upload.receive(READ);
        upload.await_bytes();
        assert!(upload.bytes() > 0, "the frame waits for the body");
        upload.send_on(0);
        upload.send_on(READ);
        upload.send_on_all();
        assert_eq!(upload.bytes(), 0);
        upload.receive(READ);
        upload.end();
        assert_eq!(upload.bytes(), 0);
    }
}
