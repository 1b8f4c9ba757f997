//! Http2Pool: the HTTP/2 connections to one server.
//!
//! A request takes a stream of the oldest connection that has a free one, so that the connections
//! of a burst become idle and close. If none has, one more connection is opened, up to a bound.
//! Beyond that, requests wait for a stream, in order; their number and their time are bounded.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::connect_attempt::ConnectAttempt;
use super::connection::Connection;
use crate::error::{BoxError, Error, NoFreeStream};
use crate::open_stream::{OpenStream, StreamBody};
use crate::response::{ResponseBody, check_framing};

/// Timeouts of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Http2Options {
    /// Interval and timeout of PING while there are streams. A server that is lost with its node
    /// would otherwise keep its streams for ever.
    pub ping: Option<Duration>,
    /// Time without a stream after which a connection is closed.
    pub idle_timeout: Duration,
    /// How long a request waits for a stream while all connections are full.
    pub stream_timeout: Duration,
}

/// HTTP/2 connections to one server, which all requests share.
pub struct Http2Pool<B>(Arc<Shared<B>>);

struct Shared<B> {
    options: Http2Options,
    state: Mutex<State<B>>,
    /// Notified when a stream ends.
    freed: Arc<Notify>,
}

struct State<B> {
    /// Oldest first.
    connections: Vec<Connection<B>>,
    attempt: Option<ConnectAttempt>,
    /// Requests that wait for a stream.
    waiting: usize,
    /// Whether a task that closes idle connections is running.
    has_sweeper: bool,
}

/// What a request does next.
enum Next<B> {
    Send(SendRequest<StreamBody<B>>, Arc<OpenStream>),
    Connect(ConnectAttempt),
    Wait,
}

/// Counts one waiting request until dropped.
struct WaitingRequest<'a, B>(&'a Shared<B>);

// === impl Http2Pool ===

impl<B> Http2Pool<B> {
    /// Connections of one pool, at most.
    pub const MAX_CONNECTIONS: usize = 32;
    /// Requests that wait for a stream while all connections are full, at most.
    pub const MAX_WAITING: usize = 1024;

    /// True if no connection is open or being opened.
    pub fn is_unused(&self) -> bool {
        let state = self.0.state.lock();
        state.connections.is_empty() && !state.attempt.as_ref().is_some_and(ConnectAttempt::is_running)
    }
}

impl<B> Http2Pool<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    /// Without a connection; the first request opens it.
    pub fn new(options: Http2Options) -> Self {
        let state = State { connections: Vec::new(), attempt: None, waiting: 0, has_sweeper: false };
        Self(Arc::new(Shared { options, state: Mutex::new(state), freed: Arc::default() }))
    }

    /// Sends over an open connection, or over one that `connect` opens. Servers close connections
    /// by age: a request that was not yet written to a reused connection goes out again.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn send<F>(
        &self,
        request: Request<B>,
        connect: impl Fn() -> F,
    ) -> Result<Response<ResponseBody>, Error>
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let mut unsent = request;
        loop {
            let (mut sender, stream, is_new) = self.open_stream(&connect).await?;
            let counted = unsent.map(|body| StreamBody::new(body, stream.clone()));
            let mut failed = match sender.try_send_request(counted).await {
                Ok(mut response) => {
                    check_framing(response.headers_mut())?;
                    return Ok(response.map(|body| ResponseBody::http2(body, stream)));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(again) if !is_new => unsent = again.map(StreamBody::into_inner),
                Some(_) => return Err(Error::Unreachable(io::Error::other(failed.into_error()))),
                None => return Err(failed.into_error().into()),
            }
        }
    }

    /// A stream, and whether its connection may have been opened for this request.
    async fn open_stream<F>(
        &self,
        connect: &impl Fn() -> F,
    ) -> Result<(SendRequest<StreamBody<B>>, Arc<OpenStream>, bool), Error>
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let (mut is_new, mut waiting) = (false, None);
        loop {
            let freed = self.0.freed.notified();
            match self.next(connect, waiting.is_some()) {
                Next::Send(sender, stream) => return Ok((sender, stream, is_new)),
                Next::Connect(attempt) => {
                    Box::pin(attempt.outcome()).await.map_err(Error::Unreachable)?;
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
    fn next<F>(&self, connect: &impl Fn() -> F, has_waited: bool) -> Next<B>
    where
        F: Future<Output = io::Result<TcpStream>> + Send + 'static,
    {
        let mut state = self.0.state.lock();
        state.connections.retain(|connection| !connection.is_closed());
        // One that waits already was first.
        if state.waiting == 0 || has_waited {
            let mut free = state.connections.iter().filter_map(Connection::open_stream);
            if let Some((sender, stream)) = free.next() {
                return Next::Send(sender, stream);
            }
        }
        if let Some(attempt) = state.attempt.as_ref().filter(|attempt| attempt.is_running()) {
            return Next::Connect(attempt.clone());
        }
        if state.connections.len() >= Self::MAX_CONNECTIONS {
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
                Ok(stream) => Connection::start(stream, shared.options.ping, shared.freed.clone()).await,
                Err(error) => Err(error),
            };
            let outcome = opened.map(|connection| shared.add(connection));
            // Before the report: who waits for it must not find this attempt again.
            shared.state.lock().attempt = None;
            reporter.report(&outcome);
        });
        attempt
    }
}

impl<B> fmt::Debug for Http2Pool<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Pool").field("options", &self.0.options).finish_non_exhaustive()
    }
}

// === impl Shared ===

impl<B> Shared<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    fn add(self: &Arc<Self>, connection: Connection<B>) {
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
        let is_expired = |connection: &Connection<B>| {
            connection.idle_since().is_some_and(|since| since.elapsed() >= idle_timeout)
        };
        state.connections.retain(|connection| !connection.is_closed() && !is_expired(connection));
        state.has_sweeper = !state.connections.is_empty();
        state.has_sweeper
    }
}

async fn sweep<B>(pool: Weak<Shared<B>>, idle_timeout: Duration)
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    loop {
        tokio::time::sleep(idle_timeout / 4).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_idle()) {
            return;
        }
    }
}

// === impl WaitingRequest ===

impl<'a, B> WaitingRequest<'a, B> {
    fn enter(shared: &'a Shared<B>) -> Result<Self, NoFreeStream> {
        let mut state = shared.state.lock();
        if state.waiting >= Http2Pool::<B>::MAX_WAITING {
            return Err(NoFreeStream::QueueFull);
        }
        state.waiting += 1;
        Ok(Self(shared))
    }
}

impl<B> Drop for WaitingRequest<'_, B> {
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

// === impl Error ===

impl From<hyper::Error> for Error {
    fn from(error: hyper::Error) -> Self {
        // hyper calls errors of the request body errors of the user.
        if error.is_user() {
            return Self::RequestBody(error.into());
        }
        // Any other cause is an error of the protocol and concerns this request alone.
        let ended = error.is_canceled() || error.source().is_some_and(|cause| cause.is::<io::Error>());
        let error = io::Error::other(error);
        if ended { Self::Unanswered(error) } else { Self::Failed(error) }
    }
}
