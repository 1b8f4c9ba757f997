//! The one HTTP/2 connection to an address, opened at the first request and again after it has
//! closed.

use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::error::{BoxError, Error};
use crate::response::{ResponseBody, check_framing};

/// An HTTP/2 connection that all requests share.
pub struct Http2Connection<B> {
    /// Interval and timeout of PING. A server that is lost with its node would otherwise keep its
    /// streams for ever.
    ping: Option<Duration>,
    /// Locked while a connection is opened, so that a burst opens one.
    sender: Mutex<Option<SendRequest<B>>>,
}

// === impl Http2Connection ===

impl<B> Http2Connection<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    /// Without a connection; the first request opens it.
    pub fn new(ping: Option<Duration>) -> Self {
        Self { ping, sender: Mutex::new(None) }
    }

    /// Sends over the open connection, or over one that `connect` opens. Servers close connections
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
        F: Future<Output = io::Result<TcpStream>>,
    {
        let mut unsent = request;
        loop {
            let (mut sender, is_new) = self.sender(&connect).await?;
            let mut failed = match sender.try_send_request(unsent).await {
                Ok(mut response) => {
                    check_framing(response.headers_mut())?;
                    return Ok(response.map(ResponseBody::from));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                Some(again) if !is_new => unsent = again,
                Some(_) => return Err(Error::Unreachable(io::Error::other(failed.into_error()))),
                None => return Err(failed.into_error().into()),
            }
        }
    }

    /// True if a connection is open or is being opened.
    pub fn is_open(&self) -> bool {
        self.sender
            .try_lock()
            .map_or(true, |sender| sender.as_ref().is_some_and(|sender| !sender.is_closed()))
    }

    /// The connection, and whether it was opened by this call.
    async fn sender<F>(&self, connect: &impl Fn() -> F) -> Result<(SendRequest<B>, bool), Error>
    where
        F: Future<Output = io::Result<TcpStream>>,
    {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), false));
        }
        let stream = Box::pin(connect()).await.map_err(Error::Unreachable)?;
        let sender = Box::pin(self.start(stream))
            .await
            .map_err(|error| Error::Unreachable(io::Error::other(error)))?;
        *current = Some(sender.clone());
        Ok((sender, true))
    }

    async fn start(&self, stream: TcpStream) -> hyper::Result<SendRequest<B>> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        if let Some(ping) = self.ping {
            builder.keep_alive_interval(ping).keep_alive_timeout(ping);
        }
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "HTTP/2 connection ended");
            }
        });
        Ok(sender)
    }
}

impl<B> fmt::Debug for Http2Connection<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http2Connection").finish_non_exhaustive()
    }
}

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
