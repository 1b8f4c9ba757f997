//! ClientStream: a client's connection below the HTTP/1 server.
//!
//! It signals when bytes arrive, with which the server starts the timeout of a head. It is closed
//! with a reset if the server has cut a response whose only end is that of the connection. After an
//! upgrade `tcp` takes the connection back.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::abort::Abort;

/// Signals between a connection and its server. Both run in one task, so no ordering is needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientSignals(Arc<Signals>);

#[derive(Debug, Default)]
struct Signals {
    /// Bytes have arrived since this was last cleared.
    received: AtomicBool,
    /// The client may read the response until the connection closes.
    reads_until_close: AtomicBool,
    /// The close is a reset.
    aborts: AtomicBool,
}

/// A connection with its signals.
#[derive(Debug)]
pub(crate) struct ClientStream<S: Abort> {
    stream: S,
    signals: ClientSignals,
}

// === impl ClientSignals ===

impl ClientSignals {
    pub(crate) fn clear_received(&self) {
        self.0.received.store(false, Ordering::Relaxed);
    }

    pub(crate) fn has_received(&self) -> bool {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Sets whether the client of the current request reads until the connection closes, as one of
    /// HTTP/1.0 does.
    pub(crate) fn set_reads_until_close(&self, reads: bool) {
        self.0.reads_until_close.store(reads, Ordering::Relaxed);
    }

    /// The response was cut; the close of the connection must not look like its end.
    pub(crate) fn response_cut(&self) {
        self.0.aborts.store(self.0.reads_until_close.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

// === impl ClientStream ===

impl<S: Abort> ClientStream<S> {
    pub(crate) fn new(stream: S, signals: ClientSignals) -> Self {
        Self { stream, signals }
    }
}

impl<S: Abort> Abort for ClientStream<S> {
    fn abort(&self) {
        self.stream.abort();
    }
}

impl<S: Abort> Drop for ClientStream<S> {
    fn drop(&mut self) {
        if self.signals.0.aborts.load(Ordering::Relaxed) {
            self.stream.abort();
        }
    }
}

impl<S: AsyncRead + Abort + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.signals.0.received.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Abort + Unpin> AsyncWrite for ClientStream<S> {
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
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
