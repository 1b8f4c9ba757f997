//! Serves HTTP/1.1 and h2c on one port until a stop, then drains gracefully.
//!
//! The handler of requests comes from the binary. This module has what every listener needs: bounds
//! on connections and header size, a timeout for headers, and a drain that lets running requests
//! finish. [`handle_on_workers`] does the same for connections that are not HTTP.

mod connection_guard;
mod graceful;
mod head_timer;
mod http1;
mod http2;
mod memory_parts;
mod protocol;
mod request_handler;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use component_base::listener::until_stop::{FIRST_REQUEST, UntilStop};
use http_client::BoxError;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use http1::Http1Server;
use http2::Http2Server;
use protocol::Protocol;

use crate::client_stream::abort::Abort;
use crate::listener::{AcceptedConnection, Acceptor, ConnectionAddresses};
use crate::workers::Workers;

pub use connection_guard::ConnectionGuard;
pub use graceful::{close_connection, drain_connection};
pub use request_handler::RequestHandler;

/// Longer than load balancers keep idle connections to servers: those of Google 600 s, those of AWS
/// and ingress-nginx 60 s. The peer with the shorter time closes, and if that is the server,
/// requests on their way are lost.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(620);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Time to receive a request's headers, from their first byte. Also the time for the first
    /// bytes of a connection, and the interval and the timeout of PING.
    pub header_read_timeout: Duration,
    /// Time without a request after which a connection is closed.
    pub idle_timeout: Duration,
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

/// The protocol settings of a listener.
#[derive(Debug)]
struct Server {
    http1: Http1Server,
    http2: Http2Server,
    /// Timeout for a head, and for the first bytes, which show the protocol.
    head_timeout: Duration,
}

/// The open connections of a listener. Clones share them.
#[derive(Clone, Debug)]
struct Connections {
    server: Arc<Server>,
    drain_timeout: Duration,
    stop: watch::Sender<bool>,
}

/// One open connection. It holds its receiver until it has ended, which is what the drain waits
/// for.
#[derive(Debug)]
struct Open {
    server: Arc<Server>,
    stopped: watch::Receiver<bool>,
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
    let mut until_stop = UntilStop::new(stop, || connections.stop());
    while let Some(accepted) = until_stop.next(acceptor.accept()).await {
        tokio::spawn(connections.open().serve(accepted, handler.clone(), ()));
    }
    // Closes the port before the drain.
    drop(acceptor);
    connections.end().await;
}

/// As [`serve`], on `workers`. `service` makes the request handler of a connection from the state
/// of its worker and the connection's guard. `admit` returns that guard from the connection's
/// addresses; without it, the connection is reset.
pub async fn serve_on_workers<T: Send + Sync + 'static, S: RequestHandler, G: ConnectionGuard>(
    workers: &Workers<T>,
    listener: TcpListener,
    admit: impl Fn(&ConnectionAddresses) -> Option<G> + Send + 'static,
    service: impl Fn(Arc<T>, &G) -> S + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let connections = Connections::new(options);
    let (opened, stopped) = (connections.clone(), connections.clone());
    let dispatch = move |workers: &Workers<T>, accepted, guard| {
        let (open, service) = (opened.open(), service.clone());
        workers.dispatch(accepted, move |state, accepted| {
            let handler = service(state, &guard);
            open.serve(accepted, handler, guard)
        });
    };
    let until_stop = UntilStop::new(stop, move || stopped.stop());
    accept_on_worker(workers, listener, options.max_connections, until_stop, admit, dispatch).await;
    connections.end().await;
}

/// Passes every connection on `listener` to `handle` on one of `workers`, whatever its protocol,
/// until `stop`. Then waits for running ones, at most `options.drain_timeout`. `admit` returns what
/// a new connection holds until its end; without it, the connection is reset.
pub async fn handle_on_workers<
    T: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
    G: Send + 'static,
>(
    workers: &Workers<T>,
    listener: TcpListener,
    admit: impl Fn(&ConnectionAddresses) -> Option<G> + Send + 'static,
    handle: impl Fn(Arc<T>, AcceptedConnection) -> F + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let running = TaskTracker::new();
    let tracker = running.clone();
    let dispatch = move |workers: &Workers<T>, accepted, guard| {
        let (handle, running) = (handle.clone(), tracker.token());
        workers.dispatch(accepted, move |state, accepted| async move {
            handle(state, accepted).await;
            drop((guard, running));
        });
    };
    let until_stop = UntilStop::new(stop, || ());
    accept_on_worker(workers, listener, options.max_connections, until_stop, admit, dispatch).await;
    running.close();
    if tokio::time::timeout(options.drain_timeout, running.wait()).await.is_err() {
        tracing::warn!(after = ?options.drain_timeout, "drain timeout, connections closed");
    }
}

/// Accepts connections on one of `workers` until the stop, and calls `dispatch` with those that
/// `admit` returns a guard for. Then closes the port.
async fn accept_on_worker<T: Send + Sync + 'static, G>(
    workers: &Workers<T>,
    listener: TcpListener,
    max_connections: usize,
    mut until_stop: UntilStop<impl FnOnce() + Send + 'static>,
    admit: impl Fn(&ConnectionAddresses) -> Option<G> + Send + 'static,
    dispatch: impl Fn(&Workers<T>, AcceptedConnection, G) + Send + 'static,
) {
    let accepted = async {
        let (listener, to) = (listener.into_std()?, workers.clone());
        let accept = async move {
            let acceptor = Acceptor::new(TcpListener::from_std(listener)?, max_connections);
            while let Some(accepted) = until_stop.next(acceptor.accept()).await {
                match admit(&accepted.connection) {
                    Some(guard) => dispatch(&to, accepted, guard),
                    None => accepted.stream.abort(),
                }
            }
            Ok(())
        };
        workers.run(accept).await
    };
    if let Err(error) = accepted.await {
        tracing::error!(%error, "listener failed, port closed");
    }
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(30),
            idle_timeout: IDLE_TIMEOUT,
            max_connections: 65_536,
            max_header_bytes: 64 * 1024,
            http2_window: 64 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

// === impl Connections ===

impl Connections {
    fn new(options: ServerOptions) -> Self {
        let (server, stop) = (Arc::new(Server::new(options)), watch::Sender::new(false));
        Self { server, drain_timeout: options.drain_timeout, stop }
    }

    fn open(&self) -> Open {
        Open { server: self.server.clone(), stopped: self.stop.subscribe() }
    }

    fn stop(&self) {
        self.stop.send_replace(true);
    }

    async fn end(self) {
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
        if let Err(error) = self.server.serve(stream, handler, &addresses, &guard, self.stopped).await {
            // Caused by the client: it disconnected or did not send HTTP.
            tracing::debug!(peer = %addresses.peer.0, %error, "connection ended with an error");
        }
    }
}

// === impl Server ===

impl Server {
    fn new(options: ServerOptions) -> Self {
        let (head_timeout, idle_timeout) = (options.header_read_timeout, options.idle_timeout);
        let http1 = Http1Server::new(options.max_header_bytes, idle_timeout, head_timeout);
        let http2 =
            Http2Server::new(options.http2_window, options.max_header_bytes, idle_timeout, head_timeout);
        Self { http1, http2, head_timeout }
    }

    /// Serves one connection to its end. After the stop it ends gracefully; its guard ends it at
    /// once.
    async fn serve(
        &self,
        stream: TcpStream,
        handler: impl RequestHandler,
        addresses: &Arc<ConnectionAddresses>,
        guard: &impl ConnectionGuard,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), BoxError> {
        let mut closed = pin!(async {
            guard.closed().await;
            tracing::debug!(peer = %addresses.peer.0, "idle connection closed in favour of others");
        });
        let accepted = Instant::now();
        let stopped_without_request = async {
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
            sleep_until(accepted + FIRST_REQUEST).await;
        };
        let detected = tokio::select! {
            biased;
            () = &mut closed => return Ok(()),
            detected = Protocol::detect(stream, self.head_timeout) => detected?,
            () = stopped_without_request => return Ok(()),
        };
        let Some((protocol, stream)) = detected else { return Ok(()) };
        let addresses = addresses.clone();
        let stop = async move {
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
            stopped
        };
        match protocol {
            Protocol::Http1 => {
                self.http1.serve(stream, handler, (&addresses, guard), stop, closed).await?;
            }
            Protocol::Http2 if !guard.admits_http2() => {}
            // Boxed: otherwise each HTTP/1 connection's future would have space for it.
            Protocol::Http2 => {
                Box::pin(self.http2.serve(stream, handler, (addresses, guard), stop, closed)).await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
