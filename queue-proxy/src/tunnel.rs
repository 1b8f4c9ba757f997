//! Tunnel: what is left of a request whose connection switched protocols (a websocket, mostly).
//!
//! It counts, and holds its slot of the app, until either side has closed it: such a caller keeps the app busy as any
//! other. Of the timeouts only silence holds for it: how long it may last is the matter of who speaks over it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use chassis::upstream::Switched;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use crate::request_counter::InFlight;
use crate::timeouts::{Activity, Stopwatch};

/// A side of the tunnel; all that passes is seen there.
struct Watched<S> {
    side: S,
    activity: Arc<Activity>,
}

/// Copies both ways until either end fails, both have finished, or nothing passes for too long; then lets go of the
/// request.
pub(crate) async fn carry(caller: OnUpgrade, mut app: Switched, request: InFlight, mut stopwatch: Stopwatch) {
    stopwatch.upgraded();
    let activity = stopwatch.activity();
    let copied = async {
        let mut caller = TokioIo::new(caller.await.map_err(io::Error::other)?);
        match activity {
            Some(activity) => {
                activity.note();
                copy_bidirectional(&mut Watched { side: caller, activity }, &mut app).await
            }
            None => copy_bidirectional(&mut caller, &mut app).await,
        }
    };
    let ended = tokio::select! {
        copied = copied => copied.map(drop),
        timeout = std::future::poll_fn(|cx| stopwatch.poll_over(cx)) => Err(io::Error::other(timeout)),
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "upgraded connection ended");
    }
    drop(request);
}

// === impl Watched ===

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.side).poll_read(cx, buf);
        if read.is_ready() {
            self.activity.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.side).poll_write(cx, buf);
        if written.is_ready() {
            self.activity.note();
        }
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.side).poll_write_vectored(cx, bufs);
        if written.is_ready() {
            self.activity.note();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.side.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.side).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.side).poll_shutdown(cx)
    }
}
