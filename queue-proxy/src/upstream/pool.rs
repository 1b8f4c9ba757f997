//! Pool: the HTTP/1.1 connections to the app that nobody uses right now.
//!
//! One for each worker, so that a request and its connection never leave their thread. A connection is taken with the
//! request and comes back when the response's body has ended, by the drop of its [`Lease`]; the newest is taken first, so
//! that a burst's connections grow old and go.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;

/// How long an idle connection is kept. Servers close theirs after 2 s (gunicorn) or 5 s (Node.js), and a request that
/// meets the closing is lost; a new connection over loopback costs some 50 µs.
const IDLE: Duration = Duration::from_millis(1500);
/// Most that is read ahead of a caller who takes nothing, in bytes, and so the largest head of a response. The library's own
/// bound is four hundred kilobytes: slow readers of large answers would cost the pod megabytes each.
const MOST_BUFFERED: usize = 64 * 1024;
/// Idle connections kept at a time; more are closed as they come back.
const MOST_IDLE: usize = 1024;

/// Idle connections, and how to make more.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    app: SocketAddr,
    idle: Arc<Mutex<IdleConnections>>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    /// By the time of their return, oldest first.
    connections: Vec<IdleConnection>,
    /// Whether a task looks for old ones.
    swept: bool,
}

#[derive(Debug)]
struct IdleConnection {
    sender: SendRequest<CallerBody>,
    since: Instant,
}

/// A connection in use. Goes back to its pool when dropped, if it can be used again.
#[derive(Debug)]
pub(crate) struct Lease {
    /// Taken by the drop alone.
    sender: Option<SendRequest<CallerBody>>,
    pool: Pool,
}

// === impl Pool ===

impl Pool {
    pub(crate) fn new(app: SocketAddr) -> Self {
        Self { app, idle: Arc::default() }
    }

    /// Sends over an idle connection or a new one. A request that met the end of an idle connection before anything of it
    /// was written goes out again; any other is lost with its connection, for the app may have seen it.
    pub(crate) async fn send(
        &self,
        request: Box<Request<CallerBody>>,
    ) -> Result<(Response<Incoming>, Lease), Refusal> {
        let mut unsent = *request;
        loop {
            let (mut sender, used_before) = match self.take() {
                Some(sender) => (sender, true),
                // Boxed, as all that is rare and large.
                None => (Box::pin(self.connect()).await?, false),
            };
            match sender.try_send_request(unsent).await {
                Ok(response) => return Ok((response, Lease { sender: Some(sender), pool: self.clone() })),
                Err(mut failed) => match failed.take_message() {
                    Some(again) if used_before => unsent = again,
                    _ => {
                        tracing::debug!(error = %failed.error(), "HTTP/1.1 request failed");
                        return Err(Refusal::of_failed(failed.error()));
                    }
                },
            }
        }
    }

    fn take(&self) -> Option<SendRequest<CallerBody>> {
        let mut idle = self.lock();
        while let Some(connection) = idle.connections.pop() {
            if connection.sender.is_ready() {
                return Some(connection.sender);
            }
        }
        None
    }

    fn put(&self, sender: SendRequest<CallerBody>) {
        let mut idle = self.lock();
        if idle.connections.len() >= MOST_IDLE {
            return;
        }
        idle.connections.push(IdleConnection { sender, since: Instant::now() });
        // Outside of a runtime the process is at its end.
        if !idle.swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            idle.swept = true;
            runtime.spawn(self.clone().sweep());
        }
    }

    /// Closes what has been idle for long, until nothing is idle any more.
    async fn sweep(self) {
        loop {
            tokio::time::sleep(IDLE / 4).await;
            let mut idle = self.lock();
            let fresh_from = idle.connections.partition_point(|connection| connection.since.elapsed() > IDLE);
            idle.connections.drain(..fresh_from);
            if idle.connections.is_empty() {
                idle.swept = false;
                return;
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<CallerBody>, Refusal> {
        let stream = TcpStream::connect(self.app).await.map_err(|_| Refusal::AppUnreachable)?;
        stream.set_nodelay(true).map_err(|_| Refusal::AppUnreachable)?;
        let (sender, connection) = http1::Builder::new()
            // One small buffer each way is cheaper to send as a whole.
            .writev(false)
            .max_buf_size(MOST_BUFFERED)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Refusal::AppFailed)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "HTTP/1.1 connection to the app ended");
            }
        });
        Ok(sender)
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        // Every update is whole before anything can fail.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Lease ===

impl Drop for Lease {
    fn drop(&mut self) {
        // Not ready: the exchange was cut, is still going on, or switched protocols.
        if let Some(sender) = self.sender.take().filter(SendRequest::is_ready) {
            self.pool.put(sender);
        }
    }
}
