//! SharedConnections: HTTP/2 connections to the API server, shared by requests.
//!
//! A process may watch thousands of namespaces. Over HTTP/1.1 each watch is a TLS connection, here
//! it is a stream of one.
//!
//! - The API server limits the streams of a connection, to 100 by default. A request above the
//!   limit would wait in the client, without an error, until a watch ends. So streams are counted,
//!   and a request that finds none free begins another connection.
//! - A connection has a window for all of its streams: unread events of one watch do not block the
//!   others.
//! - Connections are made one at a time. Requests that waited for a failed attempt fail with it, so
//!   that thousands of watches do not wait for the timeouts of each other.
//! - Without HTTP/2, as behind some proxies, nothing is sent here.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, ServiceExt};

/// Streams of a connection, at most, whatever the API server allows.
const MAX_STREAMS: u16 = 1000;
/// Bytes of a response that wait in this process until they are read, at most.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = MAX_STREAMS as u32 * STREAM_WINDOW;
/// For TCP, TLS and the first SETTINGS together. The other requests wait meanwhile.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two checks for the SETTINGS, which hyper does not report.
const SETTINGS_POLL: Duration = Duration::from_millis(1);
/// client-go's. A TCP proxy acknowledges the kernel's probes in the place of a lost API server.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections to one API server.
#[derive(Debug)]
pub(super) struct SharedConnections {
    connector: HttpsConnector<HttpConnector>,
    server: Uri,
    open: Mutex<Vec<Connection>>,
    /// Held while a connection is made. When and why the last one failed.
    attempt: tokio::sync::Mutex<Option<(Instant, ConnectError)>>,
    /// Whether the API server has no HTTP/2.
    is_refused: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    sender: SendRequest<Body>,
    limit: usize,
    /// A reference for each open stream, and this one.
    streams: Arc<()>,
}

/// A stream that is open, or reserved.
type OpenStream = Arc<()>;

/// The body of a response, which takes a stream until it is dropped, if it came over HTTP/2.
#[derive(Debug)]
pub(super) struct ResponseBody {
    // Dropped first: until then the stream is open.
    body: Incoming,
    _stream: Option<OpenStream>,
}

/// Why there is no connection.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no connection to the API server: {0}")]
struct ConnectError(Arc<str>);

/// What becomes of a request.
pub(super) enum SendResult {
    Response(Response<ResponseBody>),
    /// It was not sent, because the API server has no HTTP/2.
    Unsent(Request<Body>),
}

// === impl SharedConnections ===

impl SharedConnections {
    /// `connector` offers HTTP/2 to the server.
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, server: Uri) -> Self {
        let is_refused = AtomicBool::new(server.scheme() != Some(&http::uri::Scheme::HTTPS));
        Self { connector, server, open: Mutex::default(), attempt: tokio::sync::Mutex::default(), is_refused }
    }

    pub(super) async fn send(self: &Arc<Self>, request: Request<Body>) -> Result<SendResult, BoxError> {
        let Some((mut sender, stream)) = self.stream().await? else { return Ok(SendResult::Unsent(request)) };
        let mut error = match sender.try_send_request(request).await {
            Ok(response) => return Ok(respond(response, stream)),
            Err(error) => error,
        };
        // The API server ended the connection before: it does so at its own end, and now and then
        // to balance its load.
        let Some(request) = error.take_message() else { return Err(error.into_error().into()) };
        let Some((mut sender, stream)) = self.stream().await? else { return Ok(SendResult::Unsent(request)) };
        Ok(respond(sender.send_request(request).await?, stream))
    }

    /// A free stream. `None` if the API server has no HTTP/2.
    async fn stream(self: &Arc<Self>) -> Result<Option<(SendRequest<Body>, OpenStream)>, BoxError> {
        if let Some(stream) = self.free_stream() {
            return Ok(Some(stream));
        }
        // In a task of its own: a watch that is not polled would keep the others from a connection.
        let shared = self.clone();
        Ok(tokio::spawn(async move { shared.next_stream().await }).await??)
    }

    /// The next free stream, of a new connection if there is none.
    async fn next_stream(&self) -> Result<Option<(SendRequest<Body>, OpenStream)>, ConnectError> {
        let began = Instant::now();
        let mut attempt = self.attempt.lock().await;
        if let Some(stream) = self.free_stream() {
            return Ok(Some(stream));
        }
        if self.is_refused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some((failed, error)) = &*attempt
            && *failed >= began
        {
            return Err(error.clone());
        }
        let connected = timeout(CONNECT_TIMEOUT, self.connect()).await;
        let connected = connected.unwrap_or_else(|elapsed| Err(elapsed.into()));
        let Some(connection) = connected.map_err(|error| {
            let error = ConnectError(error.to_string().into());
            *attempt = Some((Instant::now(), error.clone()));
            error
        })?
        else {
            tracing::warn!("API server without HTTP/2, each watch takes a connection");
            self.is_refused.store(true, Ordering::Relaxed);
            return Ok(None);
        };
        let stream = connection.stream();
        self.open.lock().push(connection);
        Ok(stream)
    }

    fn free_stream(&self) -> Option<(SendRequest<Body>, OpenStream)> {
        let mut open = self.open.lock();
        open.retain(|connection| !connection.sender.is_closed());
        open.iter().find_map(Connection::stream)
    }

    async fn connect(&self) -> Result<Option<Connection>, BoxError> {
        let socket = self.connector.clone().oneshot(self.server.clone()).await?;
        if !socket.connected().is_negotiated_h2() {
            return Ok(None);
        }
        let handshake = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT)
            // Until the SETTINGS arrive: requests above the limit would wait for the end of others.
            .initial_max_send_streams(0)
            .handshake(socket);
        let (sender, connection) = handshake.await?;
        while connection.current_max_send_streams() == 0 {
            sleep(SETTINGS_POLL).await;
        }
        let limit = connection.current_max_send_streams().min(MAX_STREAMS.into());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP/2 connection to the API server ended");
            }
        });
        Ok(Some(Connection { sender, limit, streams: Arc::default() }))
    }
}

fn respond(response: Response<Incoming>, stream: OpenStream) -> SendResult {
    SendResult::Response(response.map(|body| ResponseBody { body, _stream: Some(stream) }))
}

// === impl Connection ===

impl Connection {
    /// A free stream. Once others can use it as well, only with the lock of the connections: else
    /// one could be taken twice.
    fn stream(&self) -> Option<(SendRequest<Body>, OpenStream)> {
        let has_free = Arc::strong_count(&self.streams) <= self.limit;
        has_free.then(|| (self.sender.clone(), self.streams.clone()))
    }
}

// === impl ResponseBody ===

impl From<Incoming> for ResponseBody {
    /// Of a response over HTTP/1.1.
    fn from(body: Incoming) -> Self {
        Self { body, _stream: None }
    }
}

impl HttpBody for ResponseBody {
    type Data = bytes::Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
