//! Departure: detects that the client has left while the server does not read.
//!
//! An HTTP/1 server reads no further than the app or the queue takes the body, and finds the end of
//! the connection only behind the bytes before it. The kernel reports it as soon as all of those
//! have arrived, and for that they are read ahead, within bounds.
//!
//! As long as the server reads, a client that has closed may still be served: some send a request
//! and do not wait for the response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::bytes_ahead::BytesAhead;
use super::peer_closed::PeerClosed;

/// Time between two checks.
const INTERVAL: Duration = Duration::from_secs(1);
/// The same while more bytes arrive to be read ahead.
const FILL_INTERVAL: Duration = Duration::from_millis(50);

/// The checks of one connection.
#[derive(Debug)]
pub(super) struct Departure {
    check: Pin<Box<Sleep>>,
    /// Since the last check.
    has_read: bool,
    /// Nothing was read before the last check. An app that is slow for a moment needs no bytes
    /// ahead, and a client that goes on would fill what its end needs.
    is_stuck: bool,
    ahead: BytesAhead,
}

// === impl Departure ===

impl Default for Departure {
    fn default() -> Self {
        Self {
            check: Box::pin(sleep(INTERVAL)),
            has_read: false,
            is_stuck: false,
            ahead: BytesAhead::default(),
        }
    }
}

impl Departure {
    /// Called by each read of the server, which first gets the bytes that were read ahead; false if
    /// there are none.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        self.has_read = true;
        self.ahead.read(buffer)
    }

    /// Ready when the client has left: it has closed, and since the last check nothing was read.
    pub(super) fn poll<S: AsyncRead + PeerClosed + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
    ) -> Poll<()> {
        loop {
            ready!(self.check.as_mut().poll(cx));
            let (has_read, was_stuck) = (std::mem::take(&mut self.has_read), self.is_stuck);
            self.is_stuck = !has_read;
            let mut next = INTERVAL;
            if !has_read {
                let filled = if was_stuck { self.ahead.fill(cx, stream) } else { Ok(false) };
                if filled.is_err() || !matches!(stream.is_peer_closed(), Ok(false)) {
                    return Poll::Ready(());
                }
                if matches!(filled, Ok(true)) {
                    next = FILL_INTERVAL;
                }
            }
            self.check.as_mut().reset(Instant::now() + next);
        }
    }
}
