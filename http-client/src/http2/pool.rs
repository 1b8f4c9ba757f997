//! Http2Pool: the HTTP/2 connections to one server.
//!
//! A request takes a stream of the oldest connection that has a free one, so that the connections
//! of a burst become idle and close. If none has, one more connection is opened, up to a bound.
//! Beyond that, requests wait for a stream, in order; their number and their time are bounded.
//!
//! The streams of a connection share its window, and a server that does not read one upload may
//! stop all others. So the uploads of a connection have no more bytes than its window, and an
//! upload of unknown length has a connection of its own. Only beyond the bound do they share.

use std::borrow::Borrow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Response;
use http::request::Parts;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connect_attempt::{ConnectAttempt, ConnectError};
use super::connection::Connection;
use super::exchange::Exchange;
use crate::error::{Error, NoFreeStream};
use crate::http1::ResponseBody;
use crate::open_stream::OpenStream;
use crate::request_body::RequestBody;
use crate::rewindable_body::RewindableBody;

/// How often a request is sent again.
const MAX_RESENDS: u32 = 3;
/// The same behind GOAWAY. A server that ends its connections after a few requests processes some
/// of a burst on each, and the rest of the burst meets on the next.
const MAX_RESENDS_BEHIND_GOAWAY: u32 = 30;
/// Pause before a request is sent again, multiplied by the number of times. A server refuses
/// streams above its limit while others run.
const RESEND_PAUSE: Duration = Duration::from_millis(10);

/// Timeouts of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Interval and timeout of PING while there are streams. A server that is lost with its node
    /// would otherwise keep its streams for ever.
    pub ping: Option<Duration>,
    /// Time without a stream after which a connection is closed.
    pub idle_timeout: Duration,
    /// How long a request waits for a stream while all connections are full, and a new connection
    /// for the first one.
    pub stream_timeout: Duration,
    /// Bytes of uploads that a connection may carry: its window. `None` if the window fits the
    /// uploads of all streams.
    pub upload_window: Option<u64>,
}

/// HTTP/2 connections to one server, which all requests share.
pub struct Http2Pool(Arc<Shared>);

struct Shared {
    options: Http2Options,
    state: Mutex<State>,
    /// Notified when a stream ends.
    freed: Arc<Notify>,
}

struct State {
    /// Oldest first.
    connections: Vec<Connection>,
    attempt: Option<ConnectAttempt>,
    /// Requests that wait for a stream.
    waiting: usize,
    /// Whether a task that closes idle connections is running.
    has_sweeper: bool,
}

type FreeStream = (SendRequest<Bytes>, Arc<OpenStream>);

/// What a request does next.
enum Next {
    Send(SendRequest<Bytes>, Arc<OpenStream>),
    Connect(ConnectAttempt),
    Wait,
}

/// Counts one waiting request until dropped.
struct WaitingRequest<'a>(&'a Shared);

// === impl Http2Pool ===

impl Http2Pool {
    /// The window of a connection that each server has (RFC 9113, 6.9.2).
    pub const LEAST_WINDOW: u64 = 65_535;
    /// Connections of one pool, at most.
    pub const MAX_CONNECTIONS: usize = 32;
    /// Connections that uploads of unknown length fill, at most.
    const MAX_UPLOAD_CONNECTIONS: usize = Self::MAX_CONNECTIONS - 1;
    /// Requests that wait for a stream while all connections are full, at most.
    pub const MAX_WAITING: usize = 1024;

    /// Without a connection; the first request opens it.
    pub fn new(options: Http2Options) -> Self {
        let state = State { connections: Vec::new(), attempt: None, waiting: 0, has_sweeper: false };
        Self(Arc::new(Shared { options, state: Mutex::new(state), freed: Arc::default() }))
    }

    /// True if no connection is open or being opened.
    pub fn is_unused(&self) -> bool {
        let state = self.0.state.lock();
        state.connections.is_empty() && !state.attempt.as_ref().is_some_and(ConnectAttempt::is_running)
    }

    /// Sends over an open connection, or over one that `connect` opens. Servers close connections
    /// by age: a request that finds a reused connection closed uses another.
    ///
    /// A request that the server promised not to have processed is sent again, and so is an
    /// idempotent one on a reused connection that closes without a response (RFC 9110, 9.2.2),
    /// while all that was read of its body is in memory.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn send<B, F>(
        &self,
        head: impl Borrow<Parts>,
        body: B,
        connect: impl Fn() -> F,
    ) -> Result<Response<ResponseBody>, Error>
    where
        B: RequestBody,
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let head = head.borrow();
        let (mut body, mut resends) = (RewindableBody::new(body), 0);
        loop {
            let upload = poll_fn(|cx| Poll::Ready(self.window_of(&mut body, cx))).await;
            let (mut sender, stream, is_new) = match self.open_stream(&connect, upload).await {
                // The connection ended before it was used.
                Err(Error::Unanswered(_)) if resends < MAX_RESENDS => {
                    resends += 1;
                    Box::pin(sleep(RESEND_PAUSE * resends)).await;
                    continue;
                }
                opened => opened?,
            };
            if let Err(error) = poll_fn(|cx| sender.poll_ready(cx)).await {
                stream.close_connection();
                if is_new {
                    return Err(Error::Unreachable(io::Error::other(error)));
                }
                continue;
            }
            let mut exchange = Exchange::begin(head.clone(), body, &mut sender, stream)?;
            let error = match exchange.head().await {
                Ok(head) => return exchange.into_response(head),
                Err(error) => error,
            };
            body = exchange.into_body();
            let max_resends = match &error {
                Error::Unprocessed(cause) if is_behind_goaway(cause) => MAX_RESENDS_BEHIND_GOAWAY,
                Error::Unprocessed(_) => MAX_RESENDS,
                Error::Unanswered(_) if !is_new && head.method.is_idempotent() => MAX_RESENDS,
                _ => 0,
            };
            if resends >= max_resends || !body.rewind() {
                return Err(error);
            }
            resends += 1;
            Box::pin(sleep(RESEND_PAUSE * resends)).await;
        }
    }

    /// Bytes of a connection's window that the upload may take, until the server reads them.
    fn window_of<B: RequestBody>(&self, body: &mut RewindableBody<B>, cx: &mut Context<'_>) -> u64 {
        let Some(window) = self.0.options.upload_window else { return 0 };
        body.length(cx).map_or(window, |length| length.min(window))
    }

    /// A stream for an upload of so many bytes, and whether its connection may have been opened for
    /// this request.
    async fn open_stream<F>(
        &self,
        connect: &impl Fn() -> F,
        upload: u64,
    ) -> Result<(SendRequest<Bytes>, Arc<OpenStream>, bool), Error>
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let (mut is_new, mut waiting) = (false, None);
        loop {
            let freed = self.0.freed.notified();
            match self.next(connect, upload, waiting.is_some()) {
                Next::Send(sender, stream) => return Ok((sender, stream, is_new)),
                Next::Connect(attempt) => {
                    Box::pin(attempt.outcome()).await?;
                    is_new = true;
                }
                Next::Wait => {
                    let after = self.0.options.stream_timeout;
                    let (_, deadline) = match &waiting {
                        Some(waiting) => waiting,
                        None => waiting.insert((WaitingRequest::enter(&self.0)?, Instant::now() + after)),
                    };
                    let timed_out = |_| NoFreeStream::TimedOut { after };
                    timeout_at(*deadline, freed).await.map_err(timed_out)?;
                }
            }
        }
    }

    /// `has_waited`: its turn has come, if there is a free stream.
    fn next<F>(&self, connect: &impl Fn() -> F, upload: u64, has_waited: bool) -> Next
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let window = self.0.options.upload_window.unwrap_or(u64::MAX);
        let mut state = self.0.state.lock();
        state.connections.retain(|connection| !connection.is_closed());
        // One that waits already was first.
        let has_turn = state.waiting == 0 || has_waited;
        let must_share = upload == window && state.full_connections(window) >= Self::MAX_UPLOAD_CONNECTIONS;
        if has_turn
            && !must_share
            && let Some((sender, stream)) = state.fitting_stream(upload, window)
        {
            return Next::Send(sender, stream);
        }
        let is_full = state.connections.len() >= Self::MAX_CONNECTIONS;
        if has_turn
            && (must_share || is_full)
            && let Some((sender, stream)) = state.shared_stream(upload, window)
        {
            return Next::Send(sender, stream);
        }
        if let Some(attempt) = state.attempt.as_ref().filter(|attempt| attempt.is_running()) {
            return Next::Connect(attempt.clone());
        }
        if is_full {
            return Next::Wait;
        }
        let attempt = self.begin_attempt(connect());
        state.attempt = Some(attempt.clone());
        Next::Connect(attempt)
    }

    fn begin_attempt<F>(&self, connect: F) -> ConnectAttempt
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let (reporter, attempt) = ConnectAttempt::new();
        let shared = self.0.clone();
        tokio::spawn(async move {
            let opened = match connect.await {
                Ok(stream) => shared.start(stream).await,
                Err(error) => Err(ConnectError::Unreachable(error)),
            };
            let outcome = opened.map(|connection| shared.add(connection));
            // Before the report, because a request that waits for the report must not find this
            // attempt again.
            shared.state.lock().attempt = None;
            reporter.report(outcome);
        });
        attempt
    }
}

impl fmt::Debug for Http2Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Pool").field("options", &self.0.options).finish_non_exhaustive()
    }
}

// === impl State ===

impl State {
    /// A stream of the oldest connection that has one, and room for the upload in its window.
    fn fitting_stream(&self, upload: u64, window: u64) -> Option<FreeStream> {
        // A server that does not read an upload may read nothing at all.
        let fits = |connection: &&Connection| {
            let uploads = connection.uploads();
            uploads < window && uploads + upload <= window
        };
        self.connections.iter().filter(fits).find_map(|connection| connection.open_stream(upload))
    }

    fn full_connections(&self, window: u64) -> usize {
        self.connections.iter().filter(|connection| connection.uploads() >= window).count()
    }

    /// A stream of the connection that has one, and the fewest uploads. Uploads of unknown length
    /// share among themselves, and leave a connection to all others.
    fn shared_stream(&self, upload: u64, window: u64) -> Option<FreeStream> {
        let free = self.connections.iter().filter(|connection| connection.has_free_stream());
        let load = |connection: &&Connection| {
            let uploads = connection.uploads();
            (upload == window && uploads < window, uploads)
        };
        free.min_by_key(load)?.open_stream(upload)
    }
}

// === impl Shared ===

impl Shared {
    /// All requests wait for this, so a server that permits no stream must not make it last.
    async fn start(&self, stream: TcpStream) -> Result<Connection, ConnectError> {
        let after = self.options.stream_timeout;
        let started = Connection::start(stream, self.options.ping, self.freed.clone());
        timeout(after, started).await.unwrap_or(Err(ConnectError::NoStream(after)))
    }

    fn add(self: &Arc<Self>, connection: Connection) {
        let mut state = self.state.lock();
        state.connections.push(connection);
        if !state.has_sweeper {
            state.has_sweeper = true;
            tokio::spawn(sweep(Arc::downgrade(self), self.options.idle_timeout));
        }
    }

    /// Closes idle connections; false if none is left. A connection closes when its last sender is
    /// dropped.
    fn close_idle(&self) -> bool {
        let idle_timeout = self.options.idle_timeout;
        let mut state = self.state.lock();
        let is_expired = |connection: &Connection| {
            connection.idle_since().is_some_and(|since| since.elapsed() >= idle_timeout)
        };
        state.connections.retain(|connection| !connection.is_closed() && !is_expired(connection));
        state.has_sweeper = !state.connections.is_empty();
        state.has_sweeper
    }
}

fn is_behind_goaway(cause: &io::Error) -> bool {
    let error = cause.get_ref().and_then(|error| error.downcast_ref::<h2::Error>());
    error.is_some_and(h2::Error::is_go_away)
}

async fn sweep(pool: Weak<Shared>, idle_timeout: Duration) {
    loop {
        tokio::time::sleep(idle_timeout / 4).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_idle()) {
            return;
        }
    }
}

// === impl WaitingRequest ===

impl<'a> WaitingRequest<'a> {
    fn enter(shared: &'a Shared) -> Result<Self, NoFreeStream> {
        let mut state = shared.state.lock();
        if state.waiting >= Http2Pool::MAX_WAITING {
            return Err(NoFreeStream::QueueFull);
        }
        state.waiting += 1;
        Ok(Self(shared))
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let still_waiting = {
            let mut state = self.0.state.lock();
            state.waiting -= 1;
            state.waiting > 0
        };
        // There may be more free streams than ended ones: a new connection, or a larger limit.
        if still_waiting {
            self.0.freed.notify_one();
        }
    }
}
