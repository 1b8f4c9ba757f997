//! ClientStream: a client's connection below the HTTP/1 server.
//!
//! It signals when bytes arrive, with which the server starts the timeout of a head. It detects
//! that the client has left while the server does not read. Its close lingers if the client may be
//! sending. It is a reset if the server drops the connection within a response that only the end of
//! the connection ends. After an upgrade `tcp` takes the connection back.

pub mod abort;
pub(crate) mod bytes_ahead;
mod departure;
mod lingering;
pub mod peer_closed;
mod signals;
mod unread_upload;

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::abort::Abort;
use self::departure::Departure;
use self::lingering::Lingering;
use self::peer_closed::PeerClosed;

pub(crate) use self::lingering::LingeringStream;
pub(crate) use self::signals::ClientSignals;

/// A connection with its signals.
#[derive(Debug)]
pub(crate) struct ClientStream<S: Abort> {
    stream: S,
    signals: ClientSignals,
    /// The server waits for bytes, and so for the end of the connection.
    awaits_bytes: bool,
    /// Boxed, as the next one, because most connections never have it.
    departure: Option<Box<Departure>>,
    lingering: Option<Box<Lingering>>,
    /// The server closes it.
    is_shut_down: bool,
}

// === impl ClientStream ===

impl<S: Abort> ClientStream<S> {
    pub(crate) fn new(stream: S, signals: ClientSignals) -> Self {
        Self { stream, signals, awaits_bytes: false, departure: None, lingering: None, is_shut_down: false }
    }

    /// The connection is a tunnel from now on.
    pub(crate) fn switch_protocol(&self) {
        self.signals.switch_protocol();
    }
}

impl<S: Abort> Abort for ClientStream<S> {
    fn abort(&self) {
        self.stream.abort();
    }
}

impl<S: Abort + PeerClosed> PeerClosed for ClientStream<S> {
    fn is_peer_closed(&self) -> io::Result<bool> {
        self.stream.is_peer_closed()
    }
}

impl<S: Abort> Drop for ClientStream<S> {
    fn drop(&mut self) {
        if !self.is_shut_down && self.signals.may_read_until_close() {
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
        let this = &mut *self;
        let is_ahead = this.departure.as_mut().is_some_and(|departure| departure.read(buffer));
        let read =
            if is_ahead { Poll::Ready(Ok(())) } else { Pin::new(&mut this.stream).poll_read(cx, buffer) };
        this.awaits_bytes = read.is_pending();
        if this.awaits_bytes {
            this.signals.await_bytes();
        }
        let received = buffer.filled().len() - before;
        if received > 0 {
            this.signals.receive(received);
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Abort + PeerClosed + Unpin> AsyncWrite for ClientStream<S> {
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

    /// The server calls this whenever it has nothing to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.awaits_bytes
            && this.signals.is_in_request()
            && this.departure.get_or_insert_with(Box::default).poll(cx, &mut this.stream).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.is_shut_down = true;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        if !this.signals.may_be_sending() {
            return Poll::Ready(Ok(()));
        }
        this.lingering.get_or_insert_with(Box::default).poll(cx, &mut this.stream).map(Ok)
    }
}

#[cfg(test)]
mod tests;
