//! Lingering close: reads and discards what the client still sends behind its response.
//!
//! A close with unread bytes is a reset, and a client in the middle of an upload then fails to
//! write and never reads the response (RFC 9112, 9.6).

use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Times as of nginx: of the whole close, and of silence.
const TIME: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(5);
/// Bytes that are discarded, at most.
const MAX_BYTES: usize = 1 << 30;
const BUFFER: usize = 16 << 10;

/// The close of one connection, after its sending side was shut down.
#[derive(Debug)]
pub(super) struct Lingering {
    until: Instant,
    silence: Pin<Box<Sleep>>,
    bytes: usize,
}

// === impl Lingering ===

impl Default for Lingering {
    fn default() -> Self {
        Self { until: Instant::now() + TIME, silence: Box::pin(sleep(SILENCE)), bytes: 0 }
    }
}

impl Lingering {
    /// Ready when the client has closed, or at a bound.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, stream: &mut (impl AsyncRead + Unpin)) -> Poll<()> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let before = self.bytes;
        loop {
            let mut buffer = ReadBuf::uninit(&mut buffer);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() && self.bytes < MAX_BYTES => {
                    self.bytes += buffer.filled().len();
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        if self.bytes > before {
            self.silence.as_mut().reset(self.until.min(Instant::now() + SILENCE));
        }
        self.silence.as_mut().poll(cx)
    }
}
