//! Serves HTTP on a listener until told to stop, then ends gently.
//!
//! The service comes from a binary; what is here is what every listener needs: HTTP/1.1 and h2c on one port, a bound on
//! connections, a bound on the time a caller may take for its headers, and an end that lets running requests finish.

mod graceful;
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

use crate::listener::{AcceptedConnection, Acceptor, ConnectionAddresses};
use crate::workers::Workers;

pub use graceful::{close_connection, drain_connection};

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Time a caller has to send its request's headers, and to answer a PING of HTTP/2, which comes as often.
    pub header_read_timeout: Duration,
    /// Connections open at a time; more wait in the kernel's backlog.
    pub max_connections: usize,
    /// Largest size of a request's headers, in bytes.
    pub max_header_bytes: usize,
    /// So much of a body over HTTP/2 comes before anybody reads it, in bytes. A caller that is far away sends no more than this
    /// with each round trip.
    pub http2_window: u32,
    /// Time that running requests have to finish after the stop.
    pub drain_timeout: Duration,
}

/// Has `workers` carry what comes to `listener`, of whatever protocol, until `stop`: each connection with what its worker
/// keeps. Then waits for those that run, at most `options.drain_timeout`.
pub async fn handle_on_workers<T: Send + Sync + 'static, F: Future<Output = ()> + Send>(
    workers: &Workers<T>,
    listener: TcpListener,
    carry: impl Fn(Arc<T>, AcceptedConnection) -> F + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, running) = (Acceptor::new(listener, options.max_connections), TaskTracker::new());
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let (carry, runs) = (carry.clone(), running.token());
        workers.dispatch(accepted, move |keeps, accepted| async move {
            carry(keeps, accepted).await;
            drop(runs);
        });
    }
    drop(acceptor);
    running.close();
    if tokio::time::timeout(options.drain_timeout, running.wait()).await.is_err() {
        tracing::warn!(after = ?options.drain_timeout, "connections were cut");
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

    fn handle(&self, request: Request<Incoming>, ends: &Arc<ConnectionAddresses>) -> F {
        self(request, ends)
    }
}

// === impl ServerOptions ===

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            header_read_timeout: Duration::from_secs(30),
            max_connections: 65_536,
            max_header_bytes: 64 * 1024,
            http2_window: 1024 * 1024,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// What answers the requests of a connection: any function of a request and the two ends that it came by.
pub trait RequestHandler: Clone + Send + 'static {
    /// The answer's body.
    type Body: Body<Data: Send, Error: Into<BoxError>> + Send + 'static;
    /// The answer to come.
    type Response: Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;

    /// Answers `request`.
    fn handle(&self, request: Request<Incoming>, ends: &Arc<ConnectionAddresses>) -> Self::Response;
}

/// How connections are served.
#[derive(Debug)]
struct Server {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    /// Time for the bytes by which the two are told apart.
    first_bytes: Duration,
}

/// The open connections of a listener.
#[derive(Debug)]
struct Connections {
    server: Arc<Server>,
    drain_timeout: Duration,
    stop: watch::Sender<()>,
}

/// One of them. It keeps its end of the channel until it has ended.
#[derive(Debug)]
struct Open {
    server: Arc<Server>,
    stopped: watch::Receiver<()>,
}

/// Accepts until `stop`, serves requests with what they came on, and then waits for the running requests, at most
/// `options.drain_timeout`.
pub async fn serve(
    listener: TcpListener,
    service: impl RequestHandler,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, connections) =
        (Acceptor::new(listener, options.max_connections), Connections::new(options));
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        tokio::spawn(connections.open().serve(accepted, service.clone()));
    }
    // Before what runs is waited for.
    drop(acceptor);
    connections.end().await;
}

/// The same on `workers`, with the service that a connection gets from what its worker keeps.
pub async fn serve_on_workers<T: Send + Sync + 'static, S: RequestHandler>(
    workers: &Workers<T>,
    listener: TcpListener,
    service: impl Fn(Arc<T>) -> S + Clone + Send + 'static,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let (acceptor, connections) =
        (Acceptor::new(listener, options.max_connections), Connections::new(options));
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let (open, service) = (connections.open(), service.clone());
        workers.dispatch(accepted, move |keeps, accepted| open.serve(accepted, service(keeps)));
    }
    drop(acceptor);
    connections.end().await;
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
            tracing::warn!(after = ?self.drain_timeout, "connections were cut: their requests did not end in time");
        }
    }
}

// === impl Open ===

impl Open {
    async fn serve(self, accepted: AcceptedConnection, service: impl RequestHandler) {
        let AcceptedConnection { stream, connection, place: _place } = accepted;
        let ends = Arc::new(connection);
        if let Err(error) = self.server.serve(stream, service, &ends, self.stopped).await {
            // The caller's doing: it went away or spoke no HTTP.
            tracing::debug!(peer = %ends.peer.0, %error, "connection ended");
        }
    }
}

// === impl Server ===

impl Server {
    fn new(options: ServerOptions) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // Heads and most bodies are one small buffer, which is cheaper to send as a whole.
            .writev(false)
            .timer(TokioTimer::new())
            .header_read_timeout(options.header_read_timeout)
            .max_buf_size(options.max_header_bytes.max(8192));
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            // A peer that is gone without a word would hold its streams, and what they count as, for ever.
            .keep_alive_interval(options.header_read_timeout)
            .keep_alive_timeout(options.header_read_timeout)
            .initial_stream_window_size(options.http2_window)
            .max_header_list_size(u32::try_from(options.max_header_bytes).unwrap_or(u32::MAX));
        Self { http1, http2, first_bytes: options.header_read_timeout }
    }

    /// Serves one connection to its end, which comes gently after the stop.
    async fn serve(
        &self,
        stream: TcpStream,
        service: impl RequestHandler,
        ends: &Arc<ConnectionAddresses>,
        mut stopped: watch::Receiver<()>,
    ) -> Result<(), BoxError> {
        let recognized = tokio::select! {
            biased;
            recognized = Protocol::of(stream, self.first_bytes) => recognized?,
            _ = stopped.changed() => return Ok(()),
        };
        let Some((protocol, stream)) = recognized else { return Ok(()) };
        let (stream, ends) = (TokioIo::new(stream), ends.clone());
        let stop = async move {
            let _ = stopped.changed().await;
            stopped
        };
        match protocol {
            Protocol::Http1 => {
                let service = service_fn(move |request| service.handle(request, &ends));
                GracefulConnection::new(
                    self.http1.serve_connection(stream, service).with_upgrades(),
                    stop,
                    None,
                )
                .await?;
            }
            Protocol::Http2 => {
                let word = Arc::new(DrainSignal::default());
                let heeds = word.clone();
                let service = service_fn(move |request| {
                    DrainObserver::new(service.handle(request, &ends), heeds.clone())
                });
                // Boxed: connections of HTTP/1 would have the room for one of these.
                Box::pin(GracefulConnection::new(
                    self.http2.serve_connection(stream, service),
                    stop,
                    Some(word),
                ))
                .await?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_running_request_finishes_after_the_stop() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let (arrived, mut arrivals) = mpsc::channel::<()>(1);
        let release = Arc::new(tokio::sync::Notify::new());
        let service = {
            let release = release.clone();
            move |_: Request<Incoming>, ends: &Arc<ConnectionAddresses>| {
                assert_eq!(ends.local, address);
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
