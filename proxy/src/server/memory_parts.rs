//! MemoryParts: what a connection takes of the memory budget for data that nothing reads.

use bytes::Bytes;
use http::Response;
use http_body_util::Full;

use super::connection_guard::ConnectionGuard;

/// Bytes that the memory of a connection has room for.
pub(super) const FREE: usize = 16 << 10;

/// The parts of one connection.
pub(super) struct MemoryParts<'a, G: ConnectionGuard> {
    guard: &'a G,
    /// Bytes of a part.
    size: usize,
    parts: Vec<G::Permit>,
}

/// The budget has no room for the data that a connection keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the memory budget has no room for the unread data of a connection")]
pub(super) struct MemoryFull;

// === impl MemoryParts ===

impl<'a, G: ConnectionGuard> MemoryParts<'a, G> {
    /// Takes parts of so many bytes from the budget of `guard`.
    pub(super) fn new(guard: &'a G, size: usize) -> Self {
        Self { guard, size, parts: Vec::new() }
    }

    /// Bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        self.parts.len() * self.size
    }

    /// Takes as much as `kept` bytes need.
    ///
    /// # Errors
    /// The response to a request, if there is no more. What could be taken is taken.
    pub(super) fn adjust(&mut self, kept: usize) -> Result<(), Box<Response<Full<Bytes>>>> {
        let parts = kept.saturating_sub(FREE).div_ceil(self.size);
        self.parts.truncate(parts);
        while self.parts.len() < parts {
            self.parts.push(self.guard.take_memory(self.size as u64)?);
        }
        Ok(())
    }
}
