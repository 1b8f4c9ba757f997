//! Serves HTTP on a bounded listener until a stop, then drains.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

use super::bounded_listener::BoundedListener;
use super::connection_table::{ConnectionSlot, ConnectionTable};
use super::limits::ServerLimits;
use crate::listener::until_stop::{FIRST_REQUEST, UntilStop};

/// Largest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Time for an idle connection to end gracefully.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The protocols of a server. hyper-util's server detects HTTP/2 on every connection with upgrades.
enum Protocols {
    Http1(http1::Builder),
    Both(auto::Builder<TokioExecutor>),
}

/// Closes the connections when dropped, so that none outlives the future of its server.
struct EvictionGuard(ConnectionTable);

/// Why a connection ended early.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Another connection took its place.
    #[error("closed in favour of a new connection")]
    Evicted,
    /// No request was running for too long.
    #[error("idle")]
    Idle,
    /// The client disconnected or violated a protocol.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Handles the requests of a server. Implemented for every function of a request.
pub trait HttpHandler: Clone + Send + Sync + 'static {
    /// The response's body.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;
    /// The future of the response.
    type Response: Future<Output = Response<Self::Body>> + Send + 'static;

    /// Handles `request`.
    fn handle(&self, request: Request<Incoming>) -> Self::Response;
}

// === impl HttpHandler ===

impl<H, F, B> HttpHandler for H
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    type Body = B;
    type Response = F;

    fn handle(&self, request: Request<Incoming>) -> F {
        self(request)
    }
}

/// Serves HTTP on `listener` until `stop`, then waits for running requests, at most the drain
/// timeout.
pub async fn serve(
    listener: TcpListener,
    handler: impl HttpHandler,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let open = move |stream: TcpStream, _: Arc<ConnectionSlot>| {
        std::future::ready(Ok::<_, ConnectionError>((stream, handler.clone())))
    };
    serve_with(listener, open, limits, stop).await;
}

/// As [`serve`]; `open` makes the byte stream and the handler of each connection, for TLS.
pub async fn serve_with<O, F, S, H>(
    listener: TcpListener,
    open: O,
    limits: ServerLimits,
    stop: CancellationToken,
) where
    O: Fn(TcpStream, Arc<ConnectionSlot>) -> F,
    F: Future<Output = Result<(S, H), ConnectionError>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: HttpHandler,
{
    let listener = BoundedListener::new(listener, limits.connections);
    let (eviction, running) = (EvictionGuard(listener.connections().clone()), TaskTracker::new());
    let builder = Arc::new(Protocols::new(&limits));
    let mut until_stop = UntilStop::new(stop.clone(), || ());
    while let Some((stream, slot)) = until_stop.next(listener.accept()).await {
        let slot = Arc::new(slot);
        let opened = open(stream, slot.clone());
        let (builder, stop) = (builder.clone(), stop.clone());
        let span = tracing::info_span!("connection", peer = %slot.peer());
        let connection = async move {
            if let Err(error) = carry(&builder, opened, slot, limits, stop).await {
                tracing::debug!(%error, "connection ended");
            }
        };
        running.spawn(connection.instrument(span));
    }
    // Closes the port before the drain.
    drop(listener);
    running.close();
    if tokio::time::timeout(limits.drain_timeout, running.wait()).await.is_err() {
        tracing::debug!(after = ?limits.drain_timeout, "drain timeout, connections closed");
    }
    drop(eviction);
}

/// The address of a request's connection, which each request has as an extension.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

/// Serves one connection to its end.
async fn carry<F, S, H>(
    builder: &Protocols,
    opened: F,
    slot: Arc<ConnectionSlot>,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Result<(), ConnectionError>
where
    F: Future<Output = Result<(S, H), ConnectionError>>,
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: HttpHandler,
{
    let (stream, handler) = tokio::select! {
        opened = tokio::time::timeout(limits.header_read_timeout, opened) => {
            opened.map_err(|_| ConnectionError::Idle)??
        }
        () = slot.evicted() => return Err(ConnectionError::Evicted),
    };
    let activity = slot.activity().clone();
    // Streams of HTTP/2 are tasks of their own, outside of the connection's span.
    let span = Span::current();
    let client = ClientAddress(slot.peer());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(client);
        let (running, response) = (activity.begin_request(), handler.handle(request));
        let handled = async move {
            let response = response.await;
            drop(running);
            Ok::<_, Infallible>(response)
        };
        handled.instrument(span.clone())
    });
    let stream = TokioIo::new(stream);
    match builder {
        Protocols::Http1(http1) => {
            let connection = http1.serve_connection(stream, service).with_upgrades();
            run(connection, |connection| connection.graceful_shutdown(), &slot, limits, stop).await
        }
        Protocols::Both(both) => {
            let connection = both.serve_connection(stream, service);
            run(connection, |connection| connection.graceful_shutdown(), &slot, limits, stop).await
        }
    }
}

/// Runs a connection to its end, until it is idle for too long, or until its eviction.
async fn run<C, E>(
    connection: C,
    shut_down: impl FnOnce(Pin<&mut C>),
    slot: &ConnectionSlot,
    limits: ServerLimits,
    stop: CancellationToken,
) -> Result<(), ConnectionError>
where
    C: Future<Output = Result<(), E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connection = pin!(connection);
    let stopped = async {
        stop.cancelled().await;
        slot.activity().first_request_within(FIRST_REQUEST).await;
    };
    let is_idle = tokio::select! {
        // A request that has arrived is read first: hyper closes a connection without one at once.
        biased;
        ended = connection.as_mut() => return ended.map_err(failed),
        () = slot.evicted() => return Err(ConnectionError::Evicted),
        () = stopped => false,
        () = slot.activity().expired(limits.header_read_timeout, limits.idle_timeout) => true,
    };
    shut_down(connection.as_mut());
    tokio::select! {
        ended = connection.as_mut() => ended.map_err(failed),
        () = slot.evicted() => Err(ConnectionError::Evicted),
        () = tokio::time::sleep(CLOSE_TIMEOUT), if is_idle => Err(ConnectionError::Idle),
    }
}

fn failed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ConnectionError {
    ConnectionError::Failed(error.into())
}

// === impl EvictionGuard ===

impl Drop for EvictionGuard {
    fn drop(&mut self) {
        self.0.evict_all();
    }
}

// === impl Protocols ===

impl Protocols {
    fn new(limits: &ServerLimits) -> Self {
        let Some(http2) = limits.http2 else {
            let mut http1 = http1::Builder::new();
            http1
                .timer(TokioTimer::new())
                .header_read_timeout(limits.header_read_timeout)
                .max_buf_size(MAX_HEAD_BYTES);
            return Self::Http1(http1);
        };
        let mut both = auto::Builder::new(TokioExecutor::new());
        both.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_read_timeout)
            .max_buf_size(MAX_HEAD_BYTES);
        both.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(http2.ping)
            .keep_alive_timeout(http2.ping)
            .max_concurrent_streams(http2.max_streams)
            .max_header_list_size(u32::try_from(MAX_HEAD_BYTES).unwrap_or(u32::MAX));
        Self::Both(both)
    }
}
