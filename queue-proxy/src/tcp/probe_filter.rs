//! Closes connections of the zero-scaler's activator path probe on a port that does not use HTTP.
//!
//! Before the last pod is removed, the zero-scaler connects to the Service and must reach an
//! activator. While it still reaches a pod, the app must not receive the probe, and the probe must
//! not count as traffic. The first bytes of the connection identify it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use autoscaler::contract::TCP_PROBE;
use proxy::client_stream::abort::Abort;
use proxy::client_stream::peer_closed::PeerClosed;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection on which reading fails if its first bytes are a probe.
#[derive(Debug)]
pub(crate) struct ProbeFilter {
    client: TcpStream,
    has_read: bool,
}

// === impl ProbeFilter ===

impl ProbeFilter {
    pub(crate) fn new(client: TcpStream) -> Self {
        Self { client, has_read: false }
    }
}

impl AsyncRead for ProbeFilter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.client).poll_read(cx, buf))?;
        if !std::mem::replace(&mut self.has_read, true) && buf.filled().get(before..) == Some(TCP_PROBE) {
            return Poll::Ready(Err(io::Error::other("the connection is an activator path probe")));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ProbeFilter {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.client).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.client).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.client.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.client).poll_shutdown(cx)
    }
}

impl Abort for ProbeFilter {
    fn abort(&self) {
        self.client.abort();
    }
}

impl PeerClosed for ProbeFilter {
    fn is_peer_closed(&self) -> io::Result<bool> {
        self.client.is_peer_closed()
    }
}
