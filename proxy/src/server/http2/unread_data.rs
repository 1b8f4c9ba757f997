//! UnreadData: takes from the memory budget what a connection keeps of uploads that the app does
//! not read, and of responses that the client does not read.
//!
//! A client may fill the window of each of its streams. With many of these unread, further streams
//! get smaller windows. Where the budget has no more, the stream that keeps the most gets the
//! response of the guard, or is reset if its response has begun.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body::Body;
use http_client::BoxError;

use super::exchange::Exchange;
use super::stream_set::StreamSet;
use super::unsent_data::UnsentBytes;
use crate::memory::upload_memory::UploadMemory;
use crate::server::connection_guard::ConnectionGuard;
use crate::server::memory_parts::{FREE, MemoryFull, MemoryParts};

/// What is taken at a time.
const PART: usize = 64 << 10;
/// Bytes from which on windows are small.
const MANY: usize = 1 << 20;
/// By what a small window is divided. h2 returns what was read of an upload only when it is half of
/// what the client may send at that time, so up to a third of the window may be missing for good:
/// with a window that shrinks by more than the rest, a client could never send again.
const SMALL: u32 = 2;

/// The unread data of one connection.
pub(super) struct UnreadData<'a, G: ConnectionGuard> {
    memory: Arc<UploadMemory>,
    parts: MemoryParts<'a, G>,
    /// The window of each stream without many unread bytes, and the one that the client has.
    window: u32,
    announced: u32,
}

// === impl UnreadData ===

impl<'a, G: ConnectionGuard> UnreadData<'a, G> {
    /// Takes `memory` from the budget of `guard`. Each stream has a window of so many bytes.
    pub(super) fn new(guard: &'a G, memory: Arc<UploadMemory>, window: u32) -> Self {
        Self { memory, parts: MemoryParts::new(guard, PART), window, announced: window }
    }

    /// The uploads of the connection.
    pub(super) fn memory(&self) -> &Arc<UploadMemory> {
        &self.memory
    }

    /// Adjusts what is taken to what uploads and responses keep; of these, h2 has `unsent`. Called
    /// after frames were received or streams polled.
    ///
    /// # Errors
    /// When the connection must end.
    pub(super) fn account<F, B>(
        &mut self,
        streams: &mut StreamSet<Exchange<F, B>>,
        unsent: &UnsentBytes,
    ) -> Result<(), MemoryFull>
    where
        Exchange<F, B>: Future<Output = ()>,
        B: Body<Data = Bytes, Error: Into<BoxError>>,
    {
        loop {
            let kept = self.memory.bytes() + unsent.load(Ordering::Relaxed) + streams.buffered();
            let Err(response) = self.parts.adjust(kept) else { return Ok(()) };
            let Some(index) = streams.largest(|stream| self.memory.bytes_of(stream)) else {
                // A little of complete responses may be on its way.
                return if kept > FREE + PART { Err(MemoryFull) } else { Ok(()) };
            };
            tracing::debug!("memory budget used up, stream refused");
            streams.end(index, |exchange| exchange.refuse(*response));
        }
    }

    /// The window that the client must get, if it has another one.
    pub(super) fn new_window(&self) -> Option<u32> {
        let taken = self.parts.bytes();
        let window = match self.announced == self.window {
            true if taken > MANY => self.window / SMALL,
            false if taken < MANY / 2 => self.window,
            _ => self.announced,
        };
        (window != self.announced).then_some(window)
    }

    /// The client gets this window.
    pub(super) fn announce(&mut self, window: u32) {
        self.announced = window;
    }
}
