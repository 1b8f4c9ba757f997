//! Serves HTTP/1.1 and h2c on one port until a stop, then drains gracefully.
//!
//! The handler of requests comes from the binary. This module has what every listener needs: bounds
//! on connections and header size, a timeout for headers, and a drain that lets running requests
//! finish. [`handle_on_workers`] does the same for connections that are not HTTP.

mod connection_guard;
mod graceful;
mod idle;
mod protocol;

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use http_client::BoxError;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::Protocol;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use graceful::{DrainObserver, DrainSignal, GracefulConnection};

use idle::{OpenRequests, end_when_idle};

use crate::listener::{AcceptedConnection, Acceptor, ConnectionAddresses};
use crate::tracked_body::TrackedBody;
use crate::workers::Workers;

pub use connection_guard::ConnectionGuard;
pub use graceful::{close_connection, drain_connection};

/// Streams of one HTTP/2 connection, at most.
const HTTP2_STREAMS: u32 = 1024;
/// Bytes of a response that wait in this process until the client reads them, at most.
const HTTP2_SEND_BUFFER: usize = 64 << 10;

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Time to receive a request's headers, counted from the end of the previous request. Also the
    /// idle timeout of HTTP/2 connections, and the interval and the timeout of PING.
    pub header_read_timeout: Duration,
    /// Open connections; more wait in the kernel's backlog.
    pub max_connections: usize,
    /// Largest header section, in bytes.
    pub max_header_bytes: usize,
    /// Initial HTTP/2 stream window, in bytes: what a client may send in one round trip before the
    /// body is read. The window of the connection fits all streams, so bodies that wait unread
    /// never stop another one.
    pub http2_window: u32,
    /// Time for running requests to finish after the stop.
    pub drain_timeout: Duration,
}

/// Handles the requests of a listener. Implemented for every function of a request and its
/// connection's addresses.
pub trait RequestHandler: Clone + Send + 'static {
    /// The response's body.
    type Body: Body<Data: Send, Error: Into<BoxError>> + Send + 'static;
    /// The future of the response.
    type Response: Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;

    /// Handles `request`.
    fn handle(&self, request: Request<Incoming>, addresses: &Arc<ConnectionAddresses>) -> Self::Response;
}

/// The protocol settings of a listener.
#[derive(Debug)]
struct Server {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    /// Timeout for the first bytes, which show the protocol, and of HTTP/2 without requests.
    idle_timeout: Duration,
}

/// The open connections of a listener.
#[derive(Debug)]
struct Connections {
    server: Arc<Server>,
    drain_timeout: Duration,
    stop: watch::Sender<()>,
}

/// One open connection. It holds its receiver until it has ended, which is what the drain waits
/// for.
#[derive(Debug)]
struct Open {
    server: Arc<Server>,
    stopped: watch::Receiver<()>,
}

/// Serves HTTP on `listener` until `stop`, then waits for running requests, at most
/// `options.drain_timeout`.
pub async fn serve(
    listener: TcpListener,
    handler: impl RequestHandler,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, connections) =
        (Acceptor::new(listener, options.max_connections), Connections::new(options));
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        tokio::spawn(connections.open().serve(accepted, handler.clone(), ()));
    }
    // Closes the port before the drain.
    drop(acceptor);
    connections.end().await;
}

/// As [`serve`], on `workers`. `service` makes the request handler of a connection from the state
/// of its worker and the connection's guard. `admit` returns that guard; without it, the connection
/// is closed.
pub async fn serve_on_workers<T: Send + Sync + 'static, S: RequestHandler, G: ConnectionGuard>(
    workers: &Workers<T>,
    listener: TcpListener,
    admit: impl Fn() -> Option<G> + Send,
    service: impl Fn(Arc<T>, &G) -> S + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, connections) =
        (Acceptor::new(listener, options.max_connections), Connections::new(options));
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let Some(guard) = admit() else { continue };
        let (open, service) = (connections.open(), service.clone());
        workers.dispatch(accepted, move |state, accepted| {
            let handler = service(state, &guard);
            open.serve(accepted, handler, guard)
        });
    }
    drop(acceptor);
    connections.end().await;
}

/// Passes every connection on `listener` to `handle` on one of `workers`, whatever its protocol,
/// until `stop`. Then waits for running ones, at most `options.drain_timeout`. `admit` returns what
/// a new connection holds until its end; without it, the connection is closed.
pub async fn handle_on_workers<T: Send + Sync + 'static, F: Future<Output = ()> + Send, G: Send + 'static>(
    workers: &Workers<T>,
    listener: TcpListener,
    admit: impl Fn() -> Option<G> + Send,
    handle: impl Fn(Arc<T>, AcceptedConnection) -> F + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, running) = (Acceptor::new(listener, options.max_connections), TaskTracker::new());
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let Some(guard) = admit() else { continue };
        let (handle, running_token) = (handle.clone(), running.token());
        workers.dispatch(accepted, move |state, accepted| async move {
            handle(state, accepted).await;
            drop((guard, running_token));
        });
    }
    drop(acceptor);
    running.close();
    if tokio::time::timeout(options.drain_timeout, running.wait()).await.is_err() {
        tracing::warn!(after = ?options.drain_timeout, "drain timeout, connections closed");
    }
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(30),
            max_connections: 65_536,
            max_header_bytes: 64 * 1024,
            http2_window: 64 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

// === impl RequestHandler ===

impl<S, F, B> RequestHandler for S
where
    S: Fn(Request<Incoming>, &Arc<ConnectionAddresses>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Body = B;
    type Response = F;

    fn handle(&self, request: Request<Incoming>, addresses: &Arc<ConnectionAddresses>) -> F {
        self(request, addresses)
    }
}

// === impl Connections ===

impl Connections {
    fn new(options: ServerOptions) -> Self {
        let (server, stop) = (Arc::new(Server::new(options)), watch::Sender::new(()));
        Self { server, drain_timeout: options.drain_timeout, stop }
    }

    fn open(&self) -> Open {
        Open { server: self.server.clone(), stopped: self.stop.subscribe() }
    }

    async fn end(self) {
        self.stop.send_replace(());
        if tokio::time::timeout(self.drain_timeout, self.stop.closed()).await.is_err() {
            tracing::warn!(after = ?self.drain_timeout, "drain timeout, connections closed with requests running");
        }
    }
}

// === impl Open ===

impl Open {
    /// Serves the connection to its end, or until the guard closes it.
    async fn serve<G: ConnectionGuard>(
        self,
        accepted: AcceptedConnection,
        handler: impl RequestHandler,
        guard: G,
    ) {
        let AcceptedConnection { stream, connection, permit: _permit } = accepted;
        let addresses = Arc::new(connection);
        let peer = &addresses.peer.0;
        tokio::select! {
            biased;
            () = guard.closed() => tracing::debug!(%peer, "idle connection closed in favour of others"),
            served = self.server.serve(stream, handler, &addresses, &guard, self.stopped) => {
                if let Err(error) = served {
                    // Caused by the client: it disconnected or did not send HTTP.
                    tracing::debug!(%peer, %error, "connection ended with an error");
                }
            }
        }
    }
}

// === impl Server ===

impl Server {
    fn new(options: ServerOptions) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // Heads and most bodies are one small buffer; one copy is cheaper than a vectored
            // write.
            .writev(false)
            .timer(TokioTimer::new())
            .header_read_timeout(options.header_read_timeout)
            .max_buf_size(options.max_header_bytes.max(8192));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            // Without PING, a peer that vanished would hold its streams, and the slots they count
            // for, for ever.
            .keep_alive_interval(options.header_read_timeout)
            .keep_alive_timeout(options.header_read_timeout)
            .max_concurrent_streams(HTTP2_STREAMS)
            .initial_stream_window_size(options.http2_window)
            .initial_connection_window_size(connection_window(options.http2_window))
            .max_send_buf_size(HTTP2_SEND_BUFFER)
            .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX));
        Self { http1, http2, idle_timeout: options.header_read_timeout }
    }

    /// Serves one connection to its end. After the stop it ends gracefully.
    async fn serve(
        &self,
        stream: TcpStream,
        handler: impl RequestHandler,
        addresses: &Arc<ConnectionAddresses>,
        guard: &impl ConnectionGuard,
        mut stopped: watch::Receiver<()>,
    ) -> Result<(), BoxError> {
        let detected = tokio::select! {
            biased;
            detected = Protocol::detect(stream, self.idle_timeout) => detected?,
            _ = stopped.changed() => return Ok(()),
        };
        let Some((protocol, stream)) = detected else { return Ok(()) };
        let (stream, addresses) = (TokioIo::new(stream), addresses.clone());
        let stop = async move {
            let _ = stopped.changed().await;
            stopped
        };
        match protocol {
            Protocol::Http1 => {
                let service = service_fn(move |request| handler.handle(request, &addresses));
                GracefulConnection::new(
                    self.http1.serve_connection(stream, service).with_upgrades(),
                    stop,
                    None,
                )
                .await?;
            }
            Protocol::Http2 if !guard.admits_http2() => {}
            Protocol::Http2 => {
                let signal = Arc::new(DrainSignal::default());
                let observed = signal.clone();
                let requests = OpenRequests::new();
                let opened = requests.clone();
                let service = service_fn(move |request| {
                    let open = opened.begin();
                    let response = DrainObserver::new(handler.handle(request, &addresses), observed.clone());
                    async move { response.await.map(|response| response.map(|body| TrackedBody::new(body, open))) }
                });
                let connection = self.http2.serve_connection(stream, service);
                let connection = GracefulConnection::new(connection, stop, Some(signal.clone()));
                // Boxed: otherwise each HTTP/1 connection's future would have space for it.
                Box::pin(end_when_idle(connection, &requests, &signal, self.idle_timeout)).await?;
            }
        }
        Ok(())
    }
}

/// The largest window of HTTP/2 has 31 bits.
fn connection_window(stream_window: u32) -> u32 {
    stream_window.saturating_mul(HTTP2_STREAMS).min(i32::MAX.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn drain_lets_running_request_finish() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (arrived, mut arrivals) = mpsc::channel::<()>(1);
        let release = Arc::new(tokio::sync::Notify::new());
        let service = {
            let release = release.clone();
            move |_: Request<Incoming>, addresses: &Arc<ConnectionAddresses>| {
                assert_eq!(addresses.local, address);
                let (release, arrived) = (release.clone(), arrived.clone());
                async move {
                    arrived.send(()).await.unwrap();
                    release.notified().await;
                    Ok(Response::new(Full::new(Bytes::from("late"))))
                }
            }
        };
        let server = tokio::spawn(serve(listener, service, ServerOptions::default(), stop.clone()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        arrivals.recv().await.unwrap();
        stop.cancel();
        release.notify_one();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("late"), "{answer}");
        server.await.unwrap();
    }
}
