//! HTTP/2 connections to pods: one to each that was asked over it.
//!
//! The pooled client knows its connections by the authority of a request, which is the caller's here and has to reach the app
//! as it is. So these are known by address. One that has ended is made anew by the next request, and forgotten by the
//! next connection to another pod; there are never more than pods were asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex as AsyncMutex;

use super::{Cause, UpstreamBody};
use crate::pod_connector;

/// How often a pod with open streams is asked whether it is there, and how long it has to answer. A node that is lost would
/// keep its streams for ever.
const PING: Duration = Duration::from_secs(10);

/// Held while a connection is made, so that a burst makes one.
type Slot = Arc<AsyncMutex<Option<SendRequest<UpstreamBody>>>>;

/// The connections of all pods. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Http2Connections {
    by_pod: Arc<Mutex<HashMap<SocketAddr, Slot>>>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum Failure {
    /// There is no connection, so nothing was sent.
    Connect(Cause),
    /// Something was sent.
    Sent(Cause),
    /// The request's own body failed.
    Caller,
}

// === impl Failure ===

impl Failure {
    pub(super) fn of_client(error: legacy::Error) -> Self {
        let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<hyper::Error>());
        match cause {
            _ if error.is_connect() => Self::Connect(error.into()),
            Some(cause) if cause.is_user() => Self::Caller,
            _ => Self::Sent(error.into()),
        }
    }

    fn of_connection(error: hyper::Error) -> Self {
        // What we bring into the connection, the caller's body, is what hyper calls the user's.
        if error.is_user() { Self::Caller } else { Self::Sent(error.into()) }
    }
}

// === impl Http2Connections ===

impl Http2Connections {
    /// Sends over the pod's connection, or a new one. A request that met the end of a connection before it was written goes
    /// out again.
    pub(super) async fn send(
        &self,
        to: SocketAddr,
        mut request: Request<UpstreamBody>,
    ) -> Result<Response<Incoming>, Failure> {
        let slot = self.slot(to);
        loop {
            let (mut sender, is_new) = connection(&slot, to).await?;
            let mut failed = match sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(unsent) if !is_new => request = unsent,
                _ => return Err(Failure::of_connection(failed.into_error())),
            }
        }
    }

    fn slot(&self, to: SocketAddr) -> Slot {
        let mut by_pod = lock(&self.by_pod);
        if let Some(slot) = by_pod.get(&to) {
            return slot.clone();
        }
        by_pod.retain(|_, slot| slot.try_lock().map_or(true, |slot| slot.as_ref().is_some_and(is_open)));
        by_pod.entry(to).or_default().clone()
    }
}

/// The pod's connection, and whether it was made just now.
async fn connection(slot: &Slot, to: SocketAddr) -> Result<(SendRequest<UpstreamBody>, bool), Failure> {
    let mut current = slot.lock().await;
    if let Some(sender) = current.as_ref().filter(|sender| is_open(sender)) {
        return Ok((sender.clone(), false));
    }
    let sender = connect(to).await.map_err(Failure::Connect)?;
    *current = Some(sender.clone());
    Ok((sender, true))
}

async fn connect(to: SocketAddr) -> Result<SendRequest<UpstreamBody>, Cause> {
    let stream = TokioIo::new(pod_connector::connect(to).await?);
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .handshake(stream)
        .await?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%to, %error, "HTTP/2 connection to a pod ended");
        }
    });
    Ok(sender)
}

fn is_open(sender: &SendRequest<UpstreamBody>) -> bool {
    !sender.is_closed()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
