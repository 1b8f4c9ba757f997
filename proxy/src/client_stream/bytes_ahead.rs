//! BytesAhead: bytes of a client that were read before the server wanted them.

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of one connection, at most. A client that leaves has that much in its kernel: about 100 to
/// 400 KiB on a network, more on loopback.
const MAX_BYTES: usize = 512 << 10;
/// Bytes of all connections of the process, at most; later ones are not read ahead.
const MAX_TOTAL: usize = 16 << 20;
const READ: usize = 16 << 10;

static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// The bytes, in their order.
#[derive(Debug, Default)]
pub(super) struct BytesAhead {
    bytes: BytesMut,
    /// Its part of the total.
    taken: usize,
}

// === impl BytesAhead ===

impl BytesAhead {
    /// Reads what has arrived; false if that is nothing. The next read finds an error, or the end.
    pub(super) fn fill(&mut self, cx: &mut Context<'_>, stream: &mut (impl AsyncRead + Unpin)) -> bool {
        let before = self.bytes.len();
        let mut buffer = [MaybeUninit::uninit(); READ];
        while self.taken < MAX_BYTES && self.take() {
            let mut buffer = ReadBuf::uninit(&mut buffer);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.bytes.extend_from_slice(buffer.filled());
                }
                Poll::Ready(_) | Poll::Pending => break,
            }
        }
        self.bytes.len() > before
    }

    /// Moves bytes to the reader; false if there are none.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let length = self.bytes.len().min(buffer.remaining());
        if length == 0 {
            return false;
        }
        buffer.put_slice(self.bytes.get(..length).unwrap_or_default());
        self.bytes.advance(length);
        if self.bytes.is_empty() {
            *self = Self::default();
        }
        true
    }

    fn take(&mut self) -> bool {
        if TOTAL.fetch_add(READ, Ordering::Relaxed) >= MAX_TOTAL {
            TOTAL.fetch_sub(READ, Ordering::Relaxed);
            return false;
        }
        self.taken += READ;
        true
    }
}

impl Drop for BytesAhead {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.taken, Ordering::Relaxed);
    }
}
