//! Connection: one HTTP/2 connection, its windows, and its free streams.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Ping, PingPong};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use super::connect_attempt::ConnectError;
use crate::open_stream::{OpenStream, StreamCount};

/// Streams of one connection, at most.
const MAX_STREAMS: u32 = 1024;
/// Bytes of a response that wait in this process until its caller reads them, at most. With 256
/// KiB, 2,000 responses that clients do not read took 609 MiB.
const STREAM_WINDOW: u32 = 64 << 10;
/// The window of all streams together: callers that stop reading must not stop the others.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;
/// Bytes of a request that wait in this process until the server reads them, at most.
const SEND_BUFFER: usize = 64 << 10;
/// Bytes of the headers of a response, at most; as over HTTP/1.1.
const MAX_HEADER_LIST: u32 = 64 << 10;

/// An open connection. It closes when its last sender and stream are dropped.
pub(super) struct Connection {
    sender: SendRequest<Bytes>,
    streams: Arc<StreamCount>,
}

// === impl Connection ===

impl Connection {
    /// Begins HTTP/2 on `stream`, and waits for the server's SETTINGS: streams above its limit
    /// would be refused. With `ping`, a server that does not reply to PING while there are streams
    /// loses them. `freed` is notified when a stream ends.
    pub(super) async fn start(
        stream: TcpStream,
        ping: Option<Duration>,
        freed: Arc<Notify>,
    ) -> Result<Self, ConnectError> {
        let handshake = client::Builder::new()
            .enable_push(false)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEADER_LIST)
            .max_send_buffer_size(SEND_BUFFER)
            // h2 would end the connection after 1,024 malformed responses, and all other streams
            // with it. It counts these for as long as the connection lasts.
            .max_local_error_reset_streams(None)
            // Until the server's SETTINGS.
            .initial_max_send_streams(0)
            .handshake(stream);
        let (sender, mut connection) = handshake.await.map_err(connect_error)?;
        poll_fn(|cx| match Pin::new(&mut connection).poll(cx) {
            Poll::Pending if sender.current_max_send_streams() > 0 => Poll::Ready(Ok(())),
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Err(ConnectError::Ended(io::ErrorKind::UnexpectedEof.into()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(connect_error(error))),
        })
        .await?;
        let streams = StreamCount::new(freed);
        tokio::spawn(drive(connection, ping, streams.clone()));
        Ok(Self { sender, streams })
    }

    /// A free stream for an upload of so many bytes, and the sender to use it with.
    pub(super) fn open_stream(&self, upload: u64) -> Option<(SendRequest<Bytes>, Arc<OpenStream>)> {
        Some((self.sender.clone(), self.streams.open(self.max_streams(), upload)?))
    }

    pub(super) fn has_free_stream(&self) -> bool {
        self.streams.count() < self.max_streams()
    }

    /// The bytes of the uploads of open streams, which the server may not have read.
    pub(super) fn uploads(&self) -> u64 {
        self.streams.uploads()
    }

    fn max_streams(&self) -> usize {
        self.sender.current_max_send_streams().min(MAX_STREAMS as usize)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.streams.is_closed()
    }

    /// Since when it has no stream; `None` if it has one.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.streams.idle_since()
    }
}

fn connect_error(error: h2::Error) -> ConnectError {
    if error.is_io() || error.is_remote() {
        ConnectError::Ended(io::Error::other(error))
    } else {
        ConnectError::Invalid(io::Error::other(error))
    }
}

/// Reads and writes the connection until it ends. Streams that are open then fail.
async fn drive(
    mut connection: client::Connection<TcpStream, Bytes>,
    ping: Option<Duration>,
    streams: Arc<StreamCount>,
) {
    let pings = ping.zip(connection.ping_pong());
    let keep_alive = async {
        match pings {
            Some((interval, pings)) => keep_alive(pings, interval, &streams).await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        biased;
        ended = connection => ended.map_err(io::Error::other),
        error = keep_alive => Err(error),
    };
    streams.close();
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP/2 connection ended");
    }
}

/// Sends a PING at each `interval` in which there are streams. Returns if there is no reply.
async fn keep_alive(mut pings: PingPong, interval: Duration, streams: &StreamCount) -> io::Error {
    loop {
        sleep(interval).await;
        if streams.idle_since().is_some() {
            continue;
        }
        match timeout(interval, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return io::Error::other(error),
            Err(elapsed) => return elapsed.into(),
        }
    }
}
