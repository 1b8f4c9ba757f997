//! Serves HTTP on a listener until told to stop, then ends gently.
//!
//! The service comes from a binary; what is here is what every listener needs: HTTP/1.1 and h2c on one port, a bound on
//! connections, a bound on the time a caller may take for its headers, and an end that lets running requests finish.

mod ending;
mod protocol;

use std::convert::Infallible;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ending::{Ending, Heeded, Word};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use protocol::Protocol;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::workers::Workers;

pub use ending::{close, send_away};

/// Wait after a failed accept (out of file descriptors, mostly) before the next try.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Bounds of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Options {
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

/// The two ends of the connection that a request comes on. Made once for all of its requests.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The address that the caller connected to.
    pub local: SocketAddr,
    /// The caller's address, IPv4 as such, as `X-Forwarded-For` names it.
    pub(crate) peer: (IpAddr, HeaderValue),
}

/// Has `workers` carry what comes to `listener`, of whatever protocol, until `stop`: each connection with what its worker
/// keeps. Then waits for those that run, at most `options.drain_timeout`.
pub async fn carry_on<T: Send + Sync + 'static, F: Future<Output = ()> + Send>(
    workers: &Workers<T>,
    listener: TcpListener,
    carry: impl Fn(Arc<T>, Accepted) -> F + Clone + Send + 'static,
    options: Options,
    stop: CancellationToken,
) {
    let (acceptor, running) = (Acceptor::new(listener, options.max_connections), TaskTracker::new());
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let (carry, runs) = (carry.clone(), running.token());
        workers.deal(accepted, move |keeps, accepted| async move {
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

// === impl Service ===

impl<S, F, B> Service for S
where
    S: Fn(Request<Incoming>, &Arc<Connection>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data: Send, Error: Into<Cause>> + Send + 'static,
{
    type Body = B;
    type Answer = F;

    fn answer(&self, request: Request<Incoming>, ends: &Arc<Connection>) -> F {
        self(request, ends)
    }
}

// === impl Options ===

impl Default for Options {
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
pub trait Service: Clone + Send + 'static {
    /// The answer's body.
    type Body: Body<Data: Send, Error: Into<Cause>> + Send + 'static;
    /// The answer to come.
    type Answer: Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;

    /// Answers `request`.
    fn answer(&self, request: Request<Incoming>, ends: &Arc<Connection>) -> Self::Answer;
}

/// A connection that somebody made, and its place among those that may be open.
#[derive(Debug)]
pub struct Accepted {
    /// The socket.
    pub stream: TcpStream,
    /// Its ends.
    pub connection: Connection,
    place: OwnedSemaphorePermit,
}

/// An accepted connection between two runtimes.
#[derive(Debug)]
pub struct Detached {
    stream: std::net::TcpStream,
    connection: Connection,
    place: OwnedSemaphorePermit,
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

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// A listener and the bound on what it lets in.
#[derive(Debug)]
pub struct Acceptor {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// Accepts until `stop`, serves requests with what they came on, and then waits for the running requests, at most
/// `options.drain_timeout`.
pub async fn serve(listener: TcpListener, service: impl Service, options: Options, stop: CancellationToken) {
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
pub async fn serve_on<T: Send + Sync + 'static, S: Service>(
    workers: &Workers<T>,
    listener: TcpListener,
    service: impl Fn(Arc<T>) -> S + Clone + Send + 'static,
    options: Options,
    stop: CancellationToken,
) {
    let (acceptor, connections) =
        (Acceptor::new(listener, options.max_connections), Connections::new(options));
    while let Some(accepted) = stop.run_until_cancelled(acceptor.accept()).await {
        let (open, service) = (connections.open(), service.clone());
        workers.deal(accepted, move |keeps, accepted| open.serve(accepted, service(keeps)));
    }
    drop(acceptor);
    connections.end().await;
}

// === impl Connection ===

impl Connection {
    /// A connection from `peer`, whatever its port, to `local`.
    pub fn new(peer: SocketAddr, local: SocketAddr) -> Self {
        let peer = peer.ip().to_canonical();
        // An address is made of what a header may hold.
        let entry = HeaderValue::try_from(peer.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Self { local, peer: (peer, entry) }
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Lets in at most `max_connections` at a time; more wait in the kernel's backlog.
    pub fn new(listener: TcpListener, max_connections: usize) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))) }
    }

    /// The next connection. Never fails: what goes wrong is logged, and tried again.
    pub async fn accept(&self) -> Accepted {
        loop {
            // The semaphore is never closed.
            let Ok(place) = self.places.clone().acquire_owned().await else { std::future::pending().await };
            let (stream, peer) = self.accept_stream().await;
            // A caller that is gone already has no address.
            if let Ok(local) = stream.local_addr() {
                return Accepted { stream, connection: Connection::new(peer, local), place };
            }
        }
    }

    async fn accept_stream(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    // Small answers must not wait for an acknowledgement of the one before.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%peer, %error, "no TCP_NODELAY");
                    }
                    return (stream, peer);
                }
                Err(error) => {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

// === impl Accepted ===

impl Accepted {
    /// The same connection, to be driven by the runtime that calls [`attach`](Detached::attach).
    ///
    /// # Errors
    /// When the socket cannot leave its runtime.
    pub fn detach(self) -> std::io::Result<Detached> {
        Ok(Detached { stream: self.stream.into_std()?, connection: self.connection, place: self.place })
    }
}

// === impl Detached ===

impl Detached {
    /// Takes the connection into the calling runtime.
    ///
    /// # Errors
    /// When the runtime cannot watch the socket.
    pub fn attach(self) -> std::io::Result<Accepted> {
        let stream = TcpStream::from_std(self.stream)?;
        Ok(Accepted { stream, connection: self.connection, place: self.place })
    }
}

// === impl Connections ===

impl Connections {
    fn new(options: Options) -> Self {
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
    async fn serve(self, accepted: Accepted, service: impl Service) {
        let Accepted { stream, connection, place: _place } = accepted;
        let ends = Arc::new(connection);
        if let Err(error) = self.server.serve(stream, service, &ends, self.stopped).await {
            // The caller's doing: it went away or spoke no HTTP.
            tracing::debug!(peer = %ends.peer.0, %error, "connection ended");
        }
    }
}

// === impl Server ===

impl Server {
    fn new(options: Options) -> Self {
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
        service: impl Service,
        ends: &Arc<Connection>,
        mut stopped: watch::Receiver<()>,
    ) -> Result<(), Cause> {
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
                let service = service_fn(move |request| service.answer(request, &ends));
                Ending::new(self.http1.serve_connection(stream, service).with_upgrades(), stop, None).await?;
            }
            Protocol::Http2 => {
                let word = Arc::new(Word::default());
                let heeds = word.clone();
                let service =
                    service_fn(move |request| Heeded::new(service.answer(request, &ends), heeds.clone()));
                // Boxed: connections of HTTP/1 would have the room for one of these.
                Box::pin(Ending::new(self.http2.serve_connection(stream, service), stop, Some(word))).await?;
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
            move |_: Request<Incoming>, ends: &Arc<Connection>| {
                assert_eq!(ends.local, address);
                let (release, arrived) = (release.clone(), arrived.clone());
                async move {
                    arrived.send(()).await.unwrap();
                    release.notified().await;
                    Ok(Response::new(Full::new(Bytes::from("late"))))
                }
            }
        };
        let server = tokio::spawn(serve(listener, service, Options::default(), stop.clone()));
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
