//! Sends a request over a pooled or new connection, and reads the head of its response.
//!
//! The task of the request drives the connection; there is no task per connection. Only an upload
//! that outlives its response's head gets a task of its own.

use std::borrow::Borrow;
use std::future::Future;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use tokio::net::TcpStream;

use super::bound_connection::{BoundConnection, ConnectionHome, binds_connection};
use super::connection::Connection;
use super::pool::{Pool, PoolOptions};
use super::response_body::{ResponseBody, ResponseStream, StreamSource};
use super::upload::Upload;
use crate::error::Error;
use crate::late_upload::{self, LateUpload};
use crate::read_ahead::ReadAhead;
use crate::read_buffer;
use crate::request_body::RequestBody;
use crate::response::ResponseHead;

/// A request until the head of its response is complete.
struct Exchange<B> {
    method: Method,
    upload: Upload<B>,
    /// The write error of the upload. The response is still read: the server may have answered
    /// before it closed.
    write_error: Option<io::Error>,
    /// Whether it authenticates the connection for its client, or uses one that is.
    is_bound: bool,
    /// Whether any byte of a response was received, interim responses included.
    received: bool,
    read: Bytes,
}

// === impl Pool ===

impl Pool {
    /// Sends `head` and `body` over an idle connection, or over one that `connect` opens. Returns
    /// at the head of the response. `head` is dropped when it is serialized, because it may pin a
    /// whole read buffer.
    ///
    /// An idle connection may be closed by the server at the same moment. If no byte was sent over
    /// it, the request goes out again over a new connection. So does an idempotent request (RFC
    /// 9110, 9.2.2) with no body or a small one. Any other may have been processed, and fails.
    ///
    /// `client` has the connection on which this client has authenticated itself. A connection
    /// that is authenticated for no client closes after the response.
    ///
    /// Not an `async fn`, whose future would have space for all arguments twice.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send<B, F>(
        &self,
        head: impl Borrow<Parts>,
        body: B,
        client: Option<&BoundConnection>,
        connect: impl Fn() -> F,
    ) -> impl Future<Output = Result<Response<ResponseBody>, Error>>
    where
        B: RequestBody,
        F: Future<Output = io::Result<TcpStream>>,
    {
        let (mut idle, is_bound) = self.take_for(client, head.borrow());
        let buffer = idle.as_mut().map(|connection| mem::take(&mut connection.head)).unwrap_or_default();
        let mut exchange = Exchange::new(head.borrow(), body, buffer, is_bound);
        drop(head);
        async move {
            let reused = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => open(&connect).await?,
            };
            let result = match exchange.head(&mut connection).await {
                Err(Error::Unreachable(_) | Error::Unanswered(_)) if reused && exchange.can_retry() => {
                    connection = open(&connect).await?;
                    exchange.upload.rewind();
                    exchange.head(&mut connection).await
                }
                result => result,
            };
            result.map(|head| exchange.into_response(head, connection, self, client))
        }
    }

    /// An idle connection for a request, and whether it belongs to the client from now on.
    fn take_for(&self, client: Option<&BoundConnection>, head: &Parts) -> (Option<Connection>, bool) {
        match client.and_then(|client| client.take(self)) {
            Some(bound) => (Some(bound), true),
            None => (self.take(), binds_connection(&head.headers)),
        }
    }
}

/// Sends one request over a connection of its own, which is closed after the response.
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
    Pool::new(PoolOptions { idle_timeout: Duration::ZERO, max_idle: 0 }).send(head, body, None, connect).await
}

/// Boxed because it is rare: each request's future would have space for it.
async fn open<F>(connect: impl Fn() -> F) -> Result<Connection, Error>
where
    F: Future<Output = io::Result<TcpStream>>,
{
    Box::pin(connect()).await.map(Connection::new).map_err(Error::Unreachable)
}

// === impl Exchange ===

impl<B: RequestBody> Exchange<B> {
    /// Serializes the head into `buffer`.
    fn new(head: &Parts, body: B, buffer: Vec<u8>, is_bound: bool) -> Self {
        Self {
            method: head.method.clone(),
            upload: Upload::new(head, body, buffer),
            write_error: None,
            is_bound,
            received: false,
            read: Bytes::new(),
        }
    }

    /// Sends the request over `connection`, and reads the head of the response.
    fn head(&mut self, connection: &mut Connection) -> impl Future<Output = Result<ResponseHead, Error>> {
        std::future::poll_fn(|cx| self.poll_head(connection, cx))
    }

    fn poll_head(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseHead, Error>> {
        if self.write_error.is_none() && !self.upload.is_done() {
            match self.upload.poll(cx, &mut connection.stream) {
                Poll::Ready(Err(Error::Failed(error))) => self.write_error = Some(error),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        loop {
            let parsed = self.read.len();
            match ready!(read_buffer::poll_read(&mut connection.stream, cx, &mut self.read)) {
                Ok(0) => return Poll::Ready(Err(self.read_error(io::ErrorKind::UnexpectedEof.into()))),
                Ok(_) => self.received = true,
                Err(error) => return Poll::Ready(Err(self.read_error(error))),
            }
            if let Some(head) = ResponseHead::take(&mut self.read, parsed, &self.method)? {
                return Poll::Ready(Ok(head));
            }
        }
    }

    fn read_error(&mut self, error: io::Error) -> Error {
        let error = self.write_error.take().unwrap_or(error);
        match (self.received, self.upload.has_begun()) {
            (false, false) => Error::Unreachable(error),
            (false, true) => Error::Unanswered(error),
            (true, _) => Error::Failed(error),
        }
    }

    fn can_retry(&self) -> bool {
        self.upload.can_rewind() && (self.method.is_idempotent() || !self.upload.has_begun())
    }

    /// The response; at its end the connection returns to `pool`, or to its `client`.
    fn into_response(
        self,
        head: ResponseHead,
        mut connection: Connection,
        pool: &Pool,
        client: Option<&BoundConnection>,
    ) -> Response<ResponseBody> {
        let ResponseHead { response, decoder, keeps_connection } = head;
        let Self { upload, write_error, is_bound, read, .. } = self;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response.map(|()| ResponseBody::switched(ReadAhead::new(connection.stream, read)));
        }
        let source = if upload.is_done() || write_error.is_some() {
            connection.head = upload.into_head();
            StreamSource::Connection(connection)
        } else {
            continue_upload(upload, connection.stream, keeps_connection)
        };
        let home = match (keeps_connection && write_error.is_none(), is_bound) {
            (false, _) => None,
            (true, false) => Some(ConnectionHome::Pool(pool.clone())),
            (true, true) => client.map(|client| client.home(pool)),
        };
        response.map(|()| ResponseBody::new(ResponseStream { source, read, decoder, home }))
    }
}

/// The upload goes on in a task. It ends with the response; on a persistent connection
/// (`outlives_response`) some seconds later, because the server may still read.
fn continue_upload<B: RequestBody>(
    mut upload: Upload<B>,
    stream: TcpStream,
    outlives_response: bool,
) -> StreamSource {
    let (read, mut write) = stream.into_split();
    let linger = if outlives_response { late_upload::LINGER } else { Duration::ZERO };
    let late = LateUpload::start(
        async move {
            std::future::poll_fn(|cx| upload.poll(cx, &mut write)).await?;
            // Dropping the half would shut down writing, which some servers take for a client that
            // is gone.
            write.forget();
            Ok::<_, Error>(())
        },
        linger,
    );
    StreamSource::Uploading { half: read, upload: late }
}
