//! Closes connections of the zero-scaler's activator path probe on a port that does not use HTTP.
//!
//! Before the last pod is removed, the zero-scaler connects to the Service and must reach an
//! activator. While it still reaches a pod, the app must not receive the probe, and the probe must
//! not count as traffic. The first bytes of the connection identify it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use autoscaler::contract::TCP_PROBE;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, join};
use tokio::net::TcpStream;

/// A reader that fails if its first bytes are a probe.
#[derive(Debug)]
struct ProbeFilter<R> {
    reader: R,
    has_read: bool,
}

/// Wraps `client` so that reading fails if it sends a probe.
pub(crate) fn filter_probe(client: TcpStream) -> impl AsyncRead + AsyncWrite + Unpin {
    let (reader, writer) = client.into_split();
    join(ProbeFilter { reader, has_read: false }, writer)
}

// === impl ProbeFilter ===

impl<R: AsyncRead + Unpin> AsyncRead for ProbeFilter<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        if !std::mem::replace(&mut self.has_read, true) && buf.filled().get(before..) == Some(TCP_PROBE) {
            return Poll::Ready(Err(io::Error::other("the connection is an activator path probe")));
        }
        Poll::Ready(Ok(()))
    }
}
