//! HTTP/1 to clients, on hyper.
//!
//! The guard of a connection pays for data of an upload that stays in memory because the app does
//! not read it. hyper reads up to 64 KiB at a time, so that can be 256 KiB.

mod exchange;
mod keep_alive;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::{Request, Version};
use http_client::{BoxError, ReadAhead};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use self::exchange::Exchange;
use self::keep_alive::KeepAlive;
use super::connection_guard::ConnectionGuard;
use super::graceful::GracefulConnection;
use super::head_timer::HeadTimer;
use super::memory_parts::{MemoryFull, MemoryParts};
use super::request_handler::RequestHandler;
use crate::client_stream::{ClientSignals, ClientStream};
use crate::incoming_body::IncomingBody;
use crate::listener::ConnectionAddresses;

/// What is taken of the memory budget at a time.
const PART: usize = 16 << 10;

/// The settings of all connections of a listener.
#[derive(Debug)]
pub(super) struct Http1Server {
    builder: http1::Builder,
    head_timeout: Duration,
    keep_alive: KeepAlive,
}

// === impl Http1Server ===

impl Http1Server {
    pub(super) fn new(max_header_bytes: usize, idle_timeout: Duration, head_timeout: Duration) -> Self {
        let mut builder = http1::Builder::new();
        builder
            // Heads and most bodies are one small buffer; one copy is cheaper than a vectored
            // write.
            .writev(false)
            .header_read_timeout(idle_timeout)
            .max_buf_size(max_header_bytes.max(8192));
        Self { builder, head_timeout, keep_alive: KeepAlive::new(idle_timeout) }
    }

    /// Serves one connection to its end. After `stop` it drains, and holds the output of `stop` to
    /// its end. After `closed` it ends at once.
    pub(super) async fn serve<H, S, C, G>(
        &self,
        stream: ReadAhead<TcpStream>,
        handler: H,
        (addresses, guard): (&Arc<ConnectionAddresses>, &G),
        stop: S,
        mut closed: Pin<&mut C>,
    ) -> Result<(), BoxError>
    where
        H: RequestHandler,
        S: Future,
        C: Future<Output = ()>,
        G: ConnectionGuard,
    {
        let signals = ClientSignals::default();
        let timer = HeadTimer { signals: signals.clone(), head_timeout: self.head_timeout };
        let stream = TokioIo::new(ClientStream::new(stream, signals.clone()));
        let service = {
            let signals = signals.clone();
            service_fn(move |request: Request<Incoming>| {
                let version = request.version();
                signals.begin_request(version < Version::HTTP_11);
                let keep_alive = self.keep_alive.of_request(&request);
                let request = request.map(|body| IncomingBody::http1(body, &signals));
                Exchange::new(handler.handle(request, addresses), version, keep_alive, &signals)
            })
        };
        let stop = async {
            let stopped = stop.await;
            signals.end_after_response();
            stopped
        };
        let connection = self.builder.clone().timer(timer).serve_connection(stream, service);
        let mut connection = pin!(GracefulConnection::new(connection.with_upgrades(), stop));
        let (mut memory, mut is_refused) = (MemoryParts::new(guard, PART), false);
        poll_fn(|cx| {
            if closed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            loop {
                if let Poll::Ready(served) = connection.as_mut().poll(cx) {
                    return Poll::Ready(served.map_err(BoxError::from));
                }
                if is_refused {
                    return Poll::Pending;
                }
                let Err(response) = memory.adjust(signals.unread_bytes()) else { return Poll::Pending };
                is_refused = signals.refuse(response);
                if !is_refused {
                    return Poll::Ready(Err(MemoryFull.into()));
                }
                // The next poll sends the response. Then the connection closes.
                tracing::debug!("memory budget used up, request refused");
            }
        })
        .await
    }
}
