//! FirstBytes: a connection that has to show within some time what it speaks.
//!
//! The library tells HTTP/1 from HTTP/2 by the preface, and would wait for that for ever: it times heads, which come
//! later. So a connection that brings nothing, or a part of the preface, ends here; any other passes through.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream and the time that is left.
#[derive(Debug)]
pub(super) struct FirstBytes<S> {
    stream: S,
    awaited: Option<Awaited>,
}

#[derive(Debug)]
struct Awaited {
    deadline: Instant,
    /// Only for those that keep us waiting.
    timer: Option<Pin<Box<Sleep>>>,
    /// What may still become the preface.
    rest: &'static [u8],
}

// === impl FirstBytes ===

impl<S> FirstBytes<S> {
    pub(super) fn within(time: Duration, stream: S) -> Self {
        let awaited = Awaited { deadline: Instant::now() + time, timer: None, rest: PREFACE };
        Self { stream, awaited: Some(awaited) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FirstBytes<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        let Some(awaited) = &mut this.awaited else { return read };
        if read.is_pending() {
            ready!(awaited.poll_timeout(cx));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if awaited.is_enough(buf.filled().get(before..).unwrap_or_default()) {
            this.awaited = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FirstBytes<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
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

// === impl Awaited ===

impl Awaited {
    fn poll_timeout(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        timer.as_mut().poll(cx)
    }

    /// Whether it is clear by now what the connection speaks. Nothing at all is its end.
    fn is_enough(&mut self, bytes: &[u8]) -> bool {
        match self.rest.strip_prefix(bytes) {
            Some(rest) if !bytes.is_empty() => self.rest = rest,
            _ => return true,
        }
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    async fn read(parts: &[&[u8]]) -> io::Result<()> {
        let (mut caller, stream) = duplex(64);
        let mut stream = FirstBytes::within(TIME, stream);
        for part in parts {
            caller.write_all(part).await.unwrap();
            stream.read_exact(&mut vec![0; part.len()]).await?;
        }
        // Far longer than any caller may take.
        let more = tokio::time::timeout(100 * TIME, stream.read_u8()).await;
        more.map_or(Ok(()), |more| more.map(drop))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_and_half_a_preface_time_out() {
        let late: [&[&[u8]]; 3] = [&[], &[b"PRI * HT"], &[b"P", b"RI"]];
        for parts in late {
            assert_eq!(read(parts).await.unwrap_err().kind(), io::ErrorKind::TimedOut, "{parts:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_begun_is_left_alone() {
        let begun: [&[&[u8]]; 4] =
            [&[PREFACE], &[b"PRI * ", b"HTTP/2.0\r\n\r\nSM\r\n\r\n"], &[b"G"], &[b"P", b"OST"]];
        for parts in begun {
            assert!(read(parts).await.is_ok(), "{parts:?}");
        }
    }
}
