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
use std::sync::atomic::Ordering;
use std::time::Duration;

use h2::server::Builder;
use http_client::BoxError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::InspectReader;

use self::connection::Connection;
use self::exchange::ConnectionSignals;
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
        let signals = Arc::<ConnectionSignals>::default();
        let closes_at_once = {
            let signals = signals.clone();
            move || signals.closes_at_once.load(Ordering::Relaxed)
        };
        let stream = LingeringStream::new(stream, closes_at_once);
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
        Connection::new(frames, handler, addresses, lifetime, unread, signals, timeouts).run().await
    }
}

/// The largest window of HTTP/2 has 31 bits.
fn connection_window(stream_window: u32) -> u32 {
    stream_window.saturating_mul(STREAMS).min(i32::MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::pin::pin;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::incoming_body::IncomingBody;

    const PREFACE_AND_SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const SECOND: Duration = Duration::from_secs(1);

    /// Otherwise idle connections of a client that stays would take more descriptors than their
    /// places.
    #[tokio::test(start_paused = true)]
    async fn idle_connection_that_its_guard_closes_does_not_linger() {
        let (mut client, stream) = duplex(1024);
        client.write_all(PREFACE_AND_SETTINGS).await.unwrap();
        let server = Http2Server::new(1 << 16, 1 << 14, 620 * SECOND, 30 * SECOND);
        let handler = |_: Request<IncomingBody>, _: &Arc<ConnectionAddresses>| async {
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
        };
        let addresses =
            Arc::new(ConnectionAddresses::new(([127, 0, 0, 1], 80).into(), ([127, 0, 0, 1], 40_000).into()));
        let began = Instant::now();
        let closed = pin!(sleep(SECOND));
        server.serve(stream, handler, (addresses, &()), pending::<()>(), closed).await.unwrap();
        assert_eq!(began.elapsed(), SECOND);
        // The client was not the one that closed.
        client.read_to_end(&mut Vec::new()).await.unwrap();
    }
}
