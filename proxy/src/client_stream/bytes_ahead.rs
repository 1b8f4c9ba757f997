//! BytesAhead: bytes of a client that were read before the app took them.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Context;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};

/// Bytes of all connections of the process, at most. Each stops at half of what is left: 5 MiB if
/// it is alone, as much as a kernel keeps of a client that leaves, and 512 KiB beside 30 others.
const MAX_TOTAL: usize = 16 << 20;
const READ: usize = 16 << 10;

static TOTAL: AtomicUsize = AtomicUsize::new(0);

/// The bytes, in their order.
#[derive(Debug, Default)]
pub(crate) struct BytesAhead {
    bytes: BytesMut,
    /// Its part of the total.
    taken: usize,
}

// === impl BytesAhead ===

impl BytesAhead {
    /// Reads what has arrived; false if that is nothing. The next read finds the end.
    ///
    /// # Errors
    /// That of the connection, which the kernel reports once.
    pub(crate) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<bool> {
        let before = self.bytes.len();
        let mut buffer = [MaybeUninit::uninit(); READ];
        while self.take() {
            let mut buffer = ReadBuf::uninit(&mut buffer);
            if Pin::new(&mut *stream).poll_read(cx, &mut buffer)?.is_pending() || buffer.filled().is_empty() {
                break;
            }
            self.bytes.extend_from_slice(buffer.filled());
        }
        Ok(self.bytes.len() > before)
    }

    /// Moves bytes to the reader; false if there are none.
    pub(crate) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
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

    /// Takes the bytes of one read; false without room for them.
    fn take(&mut self) -> bool {
        if self.taken >= self.bytes.len() + READ {
            return true;
        }
        let total = TOTAL.fetch_add(READ, Ordering::Relaxed);
        if self.taken >= MAX_TOTAL.saturating_sub(total) / 2 {
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
