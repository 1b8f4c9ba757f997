//! One direction of a relay. Its buffer exists only while its destination does not take bytes.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::client_stream::bytes_ahead::BytesAhead;

/// Largest read, and most that is buffered for an end that does not take bytes.
pub(super) const BUFFER: usize = 16 * 1024;

/// One direction of the relay.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Bytes that were read and are not yet written.
    rest: Vec<u8>,
    /// How many of `rest` are written.
    written: usize,
    /// Bytes behind `rest`.
    ahead: BytesAhead,
    state: DirectionState,
    /// Whether bytes were read since the last check.
    moved: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum DirectionState {
    #[default]
    Open,
    /// The source has closed; the shutdown of the destination is pending.
    Ending,
    Ended,
}

// === impl Direction ===

impl Direction {
    /// Relays what can be relayed. Ready when `from` has closed and `to` is shut down.
    pub(super) fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            ready!(self.poll_rest(cx, to))?;
            match self.state {
                DirectionState::Ended => return Poll::Ready(Ok(())),
                DirectionState::Ending => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = DirectionState::Ended;
                }
                DirectionState::Open => {
                    if self.poll_read(cx, from, to)?.is_pending() {
                        // A writer with a buffer of its own, such as an upgraded connection, needs
                        // the flush.
                        let _ = Pin::new(&mut *to).poll_flush(cx)?;
                        return Poll::Pending;
                    }
                }
            }
        }
    }

    /// Reads once and writes as much of it as `to` takes.
    fn poll_read<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut buffer = ReadBuf::uninit(&mut buffer);
        if !self.ahead.read(&mut buffer) {
            ready!(Pin::new(from).poll_read(cx, &mut buffer))?;
        }
        let read = buffer.filled();
        if read.is_empty() {
            self.state = DirectionState::Ending;
            return Poll::Ready(Ok(()));
        }
        self.moved = true;
        let written = match Pin::new(to).poll_write(cx, read)? {
            Poll::Ready(written) => written,
            Poll::Pending => 0,
        };
        self.rest.extend_from_slice(read.get(written..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }

    /// Ready when all buffered bytes are written.
    fn poll_rest<W: AsyncWrite + Unpin>(&mut self, cx: &mut Context<'_>, to: &mut W) -> Poll<io::Result<()>> {
        while let Some(rest) = self.rest.get(self.written..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut *to).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
            if self.written == self.rest.len() {
                (self.rest, self.written) = (Vec::new(), 0);
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state != DirectionState::Open
    }

    /// Reads what has arrived behind bytes that are not taken; false if that is nothing.
    pub(super) fn read_ahead(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<bool> {
        Ok(!self.has_ended() && self.has_rest() && self.ahead.fill(cx, from)?)
    }

    /// When to check next whether the source has left.
    pub(super) fn next_check(&self, interval: Duration) -> Option<Instant> {
        (!self.is_reading()).then(|| Instant::now() + interval)
    }

    /// Whether bytes wait for its destination.
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Whether it waits for bytes of its source.
    pub(super) fn is_reading(&self) -> bool {
        self.state == DirectionState::Open && !self.has_rest()
    }

    pub(super) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }
}
