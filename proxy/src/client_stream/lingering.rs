//! Lingering close: reads and discards what the client still sends behind its response.
//!
//! A close with unread bytes is a reset, and a client in the middle of an upload then fails to
//! write and never reads the response (RFC 9112, 9.6). A client of HTTP/2 sends WINDOW_UPDATE for
//! its last responses, and after a reset haproxy discards those that it has received but not yet
//! passed on.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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

/// A connection with a close that lingers, unless it must close at once.
#[derive(Debug)]
pub(crate) struct LingeringStream<S, C> {
    stream: S,
    closes_at_once: C,
    lingering: Option<Box<Lingering>>,
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

// === impl LingeringStream ===

impl<S, C: Fn() -> bool> LingeringStream<S, C> {
    /// `closes_at_once` is called when the connection closes, and while it lingers.
    pub(crate) fn new(stream: S, closes_at_once: C) -> Self {
        Self { stream, closes_at_once, lingering: None }
    }
}

impl<S: AsyncRead + Unpin, C: Unpin> AsyncRead for LingeringStream<S, C> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin, C: Fn() -> bool + Unpin> AsyncWrite for LingeringStream<S, C> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if (this.closes_at_once)() {
            return Poll::Ready(Ok(()));
        }
        this.lingering.get_or_insert_with(Box::default).poll(cx, &mut this.stream).map(Ok)
    }
}
