//! Connection: one HTTP/2 connection, its windows, and its free streams.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http_body::Body;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::error::BoxError;
use crate::open_stream::{OpenStream, StreamBody, StreamCount};

/// Streams of one connection, at most.
const MAX_STREAMS: u32 = 1024;
/// Bytes of a response that wait in this process until its caller reads them, at most.
const STREAM_WINDOW: u32 = 256 << 10;
/// The window of all streams together: callers that stop reading must not stop the others.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// Bytes of a request that wait in this process until the server reads them, at most.
const SEND_BUFFER: usize = 64 << 10;

/// An open connection.
pub(super) struct Connection<B> {
    sender: SendRequest<StreamBody<B>>,
    streams: Arc<StreamCount>,
    limit: Arc<dyn StreamLimit>,
}

/// The server's limit of streams.
trait StreamLimit: Send + Sync {
    /// Before the server's SETTINGS it is 100, which RFC 9113 (6.5.2) recommends as the least.
    fn max_streams(&self) -> usize;
}

/// hyper's half of a connection, polled by a task until it ends.
type Driver<B> = Mutex<Option<http2::Connection<TokioIo<TcpStream>, StreamBody<B>, TokioExecutor>>>;

// === impl Connection ===

impl<B> Connection<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    /// Begins HTTP/2 on `stream`. With `ping`, a server that does not reply to PING while there are
    /// streams loses them. `freed` is notified when a stream ends.
    pub(super) async fn start(
        stream: TcpStream,
        ping: Option<Duration>,
        freed: Arc<Notify>,
    ) -> io::Result<Self> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER);
        if let Some(ping) = ping {
            builder.keep_alive_interval(ping).keep_alive_timeout(ping);
        }
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        let driver = Arc::new(Mutex::new(Some(connection)));
        tokio::spawn(drive(driver.clone()));
        Ok(Self { sender, streams: StreamCount::new(freed), limit: driver })
    }

    /// A free stream, and the sender to use it with.
    pub(super) fn open_stream(&self) -> Option<(SendRequest<StreamBody<B>>, Arc<OpenStream>)> {
        let bound = self.limit.max_streams().min(MAX_STREAMS as usize);
        Some((self.sender.clone(), self.streams.open(bound)?))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Since when it has no stream; `None` if it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.streams.idle_since()
    }
}

// === impl StreamLimit ===

impl<B> StreamLimit for Driver<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn max_streams(&self) -> usize {
        self.lock().as_ref().map_or(0, http2::Connection::current_max_send_streams)
    }
}

async fn drive<B>(driver: Arc<Driver<B>>)
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let ended = poll_fn(|cx| {
        let mut driver = driver.lock();
        let Some(connection) = driver.as_mut() else { return Poll::Ready(Ok(())) };
        let ended = ready!(Pin::new(connection).poll(cx));
        *driver = None;
        Poll::Ready(ended)
    });
    if let Err(error) = ended.await {
        tracing::debug!(%error, "HTTP/2 connection ended");
    }
}
