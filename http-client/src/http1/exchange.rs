//! Pool: the connections to one address, as far as nobody uses them, and the way a request takes over one.
//!
//! A connection is taken with the request and comes back when the response's body has ended. The newest is taken first, so
//! that a burst's connections grow old and go.

use std::borrow::Borrow;
use std::future::Future;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

use super::connection::Connection;
use super::pool::{Pool, PoolOptions};
use super::upload::{RequestBody, Upload};
use crate::error::Error;
use crate::read_ahead::ReadAhead;
use crate::read_buffer;
use crate::response::{ResponseBody, ResponseHead, ResponseStream, StreamSource};

/// A request on a connection, until its response has begun.
struct Exchange<B> {
    connection: Connection,
    method: Method,
    upload: Upload<B>,
    /// Why the upload ended before its end. The other side may have answered before it closed.
    broken: Option<io::Error>,
    /// Whether anything came back, if only that more is to come.
    heard: bool,
    read: Bytes,
}

// === impl Pool ===

impl Pool {
    /// Sends over a resting connection, or one that `connect` makes; ends with the response's head. A request's head that is
    /// given away is dropped once it is sent: what it came in may be as large as a connection's buffer.
    ///
    /// A resting connection may have been closed while the request was on its way. One of which nothing was sent then goes out
    /// over a new connection, and so does one that may be sent twice (RFC 9110, 9.2.2) and has no body that would be gone; of any
    /// other the other side may have seen something.
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
        F: Future<Output = io::Result<TcpStream>>,
    {
        let (connection, rested) = match self.take() {
            Some(connection) => (connection, true),
            None => (open(&connect).await?, false),
        };
        let mut exchange = Exchange::new(connection, head.borrow(), body);
        drop(head);
        let answered = match exchange.head().await {
            Err(Error::Unreachable(_) | Error::Unanswered(_)) if rested && exchange.may_be_sent_again() => {
                exchange.restart(open(&connect).await?);
                exchange.head().await
            }
            answered => answered,
        };
        answered.map(|head| exchange.answer(head, self))
    }
}

/// One request over a connection of its own, which ends with the response.
///
/// # Errors
/// See [`Error`].
pub async fn send_once<B, F>(
    request: Request<B>,
    connect: impl Fn() -> F,
) -> Result<Response<ResponseBody>, Error>
where
    B: RequestBody,
    F: Future<Output = io::Result<TcpStream>>,
{
    let (head, body) = request.into_parts();
    Pool::new(PoolOptions { idle: Duration::ZERO, most_idle: 0 }).send(head, body, connect).await
}

/// Boxed, as all that is rare: each request would have the room for it.
async fn open<F>(connect: impl Fn() -> F) -> Result<Connection, Error>
where
    F: Future<Output = io::Result<TcpStream>>,
{
    Box::pin(connect()).await.map(Connection::new).map_err(Error::Unreachable)
}

// === impl Exchange ===

impl<B: RequestBody> Exchange<B> {
    fn new(mut connection: Connection, head: &Parts, body: B) -> Self {
        let upload = Upload::new(head, body, std::mem::take(&mut connection.head));
        Self {
            connection,
            method: head.method.clone(),
            upload,
            broken: None,
            heard: false,
            read: Bytes::new(),
        }
    }

    async fn head(&mut self) -> Result<ResponseHead, Error> {
        std::future::poll_fn(|cx| self.poll_head(cx)).await
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, Error>> {
        if self.broken.is_none() && !self.upload.is_done() {
            match self.upload.poll(cx, &mut self.connection.stream) {
                Poll::Ready(Err(Error::Failed(error))) => self.broken = Some(error),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        loop {
            match ready!(read_buffer::poll_read(&mut self.connection.stream, cx, &mut self.read)) {
                Ok(0) => return Poll::Ready(Err(self.failed(io::ErrorKind::UnexpectedEof.into()))),
                Ok(_) => self.heard = true,
                Err(error) => return Poll::Ready(Err(self.failed(error))),
            }
            if let Some(head) = ResponseHead::take(&mut self.read, &self.method)? {
                return Poll::Ready(Ok(head));
            }
        }
    }

    fn failed(&mut self, error: io::Error) -> Error {
        let error = self.broken.take().unwrap_or(error);
        match (self.heard, self.upload.has_begun()) {
            (false, false) => Error::Unreachable(error),
            (false, true) => Error::Unanswered(error),
            (true, _) => Error::Failed(error),
        }
    }

    fn may_be_sent_again(&self) -> bool {
        self.upload.can_rewind() && (self.method.is_idempotent() || !self.upload.has_begun())
    }

    fn restart(&mut self, connection: Connection) {
        self.connection = connection;
        self.upload.rewind();
    }

    /// The response, from which the connection returns to `pool`.
    fn answer(self, head: ResponseHead, pool: &Pool) -> Response<ResponseBody> {
        let ResponseHead { response, decoder, keeps_connection } = head;
        let Self { mut connection, upload, broken, read, .. } = self;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response.map(|()| ResponseBody::switched(ReadAhead::new(connection.stream, read)));
        }
        let source = if upload.is_done() || broken.is_some() {
            connection.head = upload.into_head();
            StreamSource::Connection(connection)
        } else {
            go_on(upload, connection.stream, keeps_connection)
        };
        let pool = (keeps_connection && broken.is_none()).then(|| pool.clone());
        response.map(|()| ResponseBody::new(ResponseStream { source, read, decoder, pool }))
    }
}

/// The other side answers before it has seen all. It gets the rest; unless it says that it reads no more, even behind the
/// end of its answer.
fn go_on<B: RequestBody>(mut upload: Upload<B>, stream: TcpStream, behind_the_end: bool) -> StreamSource {
    let (read, mut write) = stream.into_split();
    let upload = tokio::spawn(async move {
        if let Err(error) = std::future::poll_fn(|cx| upload.poll(cx, &mut write)).await {
            tracing::debug!(%error, "a request that was answered before its end was cut");
            return;
        }
        // Or the other side would take it for the end of who waits for the answer.
        write.forget();
    });
    StreamSource::Uploading { half: read, _upload: (!behind_the_end).then(|| AbortOnDropHandle::new(upload)) }
}
