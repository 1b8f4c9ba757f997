//! Screened: a caller that may turn out to be the zero-scaler, which asks who answers on a port that is not HTTP's.
//!
//! Before the last pod goes it calls the Service, and must find an activator there. As long as it finds pods, neither may
//! their apps see the question nor may it count as traffic. It is known by what it says first.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use autoscaler::contract::TCP_PROBE;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, join};
use tokio::net::TcpStream;

/// What a caller says, until it says that it is none.
#[derive(Debug)]
struct Screened<R> {
    reader: R,
    has_spoken: bool,
}

/// The caller; its reading fails if it is a probe.
pub(crate) fn screened(caller: TcpStream) -> impl AsyncRead + AsyncWrite + Unpin {
    let (reader, writer) = caller.into_split();
    join(Screened { reader, has_spoken: false }, writer)
}

// === impl Screened ===

impl<R: AsyncRead + Unpin> AsyncRead for Screened<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.reader).poll_read(cx, buf))?;
        if !std::mem::replace(&mut self.has_spoken, true) && buf.filled().get(before..) == Some(TCP_PROBE) {
            return Poll::Ready(Err(io::Error::other("it was a probe for an activator")));
        }
        Poll::Ready(Ok(()))
    }
}
