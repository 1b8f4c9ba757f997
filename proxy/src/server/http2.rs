//! HTTP/2 to clients, on h2 itself.
//!
//! ```text
//!  client ◄─► Connection ─┬─ Exchange: request ─► handler ─► BodySender
//!             (one task)  ├─ Exchange                      (h2 buffers its frames; one write)
//!                         └─ Lifetime: stop, guard, idle timeout, PING
//! ```
//!
//! hyper's server has a task for each stream and a clock for each frame. Here the task of the
//! connection polls the streams that were woken, and then writes what all of them sent.

mod body_sender;
mod connection;
mod date;
mod exchange;
mod lifetime;
mod ready_list;
mod stream_set;
mod unread_data;
mod unsent_data;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use h2::server::Builder;
use http_client::BoxError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::InspectReader;

use self::connection::Connection;
use self::lifetime::Lifetime;
use self::unread_data::UnreadData;
use self::unsent_data::UnsentData;
use super::connection_guard::ConnectionGuard;
use super::request_handler::RequestHandler;
use crate::client_stream::LingeringStream;
use crate::listener::ConnectionAddresses;
use crate::memory::upload_memory::{FrameHeads, UploadMemory};

/// Streams of one connection, at most.
const STREAMS: u32 = 1024;
/// Streams that a client may reset before they are read here, at most: an ingress cancels many at a
/// time if its clients disconnect. More with one write end the connection (CVE-2023-44487).
const UNREAD_RESETS: usize = 256;
/// Bytes of a response that wait in this process until the client reads them, at most.
const SEND_BUFFER: usize = 16 << 10;

/// The settings of all connections of a listener.
#[derive(Debug)]
pub(super) struct Http2Server {
    builder: Builder,
    window: u32,
    idle_timeout: Duration,
    ping: Duration,
}

// === impl Http2Server ===

impl Http2Server {
    /// `window` is the window of a stream. The window of the connection fits all streams, so bodies
    /// that wait unread never stop another one. `ping` is the interval and the timeout of PING.
    pub(super) fn new(window: u32, max_header_bytes: usize, idle_timeout: Duration, ping: Duration) -> Self {
        let mut builder = Builder::new();
        builder
            .max_concurrent_streams(STREAMS)
            .max_pending_accept_reset_streams(UNREAD_RESETS)
            .initial_window_size(window)
            .initial_connection_window_size(connection_window(window))
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(u32::try_from(max_header_bytes).unwrap_or(u32::MAX));
        Self { builder, window, idle_timeout, ping }
    }

    /// Serves one connection to its end. Its guard pays for uploads that nothing reads. After
    /// `stop` it drains, and holds the output of `stop` to its end. After `closed` it ends at once,
    /// with GOAWAY.
    pub(super) async fn serve<I, H, S, C, G>(
        &self,
        stream: I,
        handler: H,
        (addresses, guard): (Arc<ConnectionAddresses>, &G),
        stop: S,
        mut closed: Pin<&mut C>,
    ) -> Result<(), BoxError>
    where
        I: AsyncRead + AsyncWrite + Unpin,
        H: RequestHandler,
        S: Future,
        C: Future<Output = ()>,
        G: ConnectionGuard,
    {
        let memory = Arc::<UploadMemory>::default();
        let unread = UnreadData::new(guard, memory.clone(), self.window);
        let mut heads = FrameHeads::new();
        let stream = LingeringStream::new(stream);
        let stream = InspectReader::new(stream, move |bytes: &[u8]| memory.receive(&mut heads, bytes));
        let handshake = self.builder.handshake::<_, UnsentData>(stream);
        let mut frames = tokio::select! {
            biased;
            // Without the client's settings it cannot have sent a request.
            () = &mut closed => return Ok(()),
            frames = handshake => frames?,
        };
        let lifetime = Lifetime::new(stop, closed, self.idle_timeout, frames.ping_pong(), self.ping);
        let timeouts = (self.idle_timeout, self.ping);
        Connection::new(frames, handler, addresses, lifetime, unread, timeouts).run().await
    }
}

/// The largest window of HTTP/2 has 31 bits.
fn connection_window(stream_window: u32) -> u32 {
    stream_window.saturating_mul(STREAMS).min(i32::MAX.unsigned_abs())
}
