//! Pool: the connections to one address, as far as nobody uses them, and the way a request takes over one.
//!
//! A connection is taken with the request and comes back when the response's body has ended. The newest is taken first, so
//! that a burst's connections grow old and go.

use std::borrow::Borrow;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::link::Link;
use super::response_body::{ResponseBody, Source, Streaming};
use super::response_head::ResponseHead;
use super::upload::Upload;
use super::{Error, RequestBody};
use crate::read_ahead::ReadAhead;
use crate::read_buffer;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a connection may rest. Shorter than the other side keeps one: a request that meets the closing is lost if it
    /// may not be sent twice.
    pub idle: Duration,
    /// Resting connections kept at a time; more are closed as they come back.
    pub most_idle: usize,
}

/// Resting connections. Clones share them.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    resting: Mutex<Resting>,
}

#[derive(Debug, Default)]
struct Resting {
    /// By the time of their return, oldest first.
    links: Vec<(Instant, Link)>,
    /// Whether a task looks for old ones.
    swept: bool,
}

/// A request on a connection, until its response has begun.
struct Exchange<B> {
    link: Link,
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
    /// No connections yet.
    pub fn new(options: Options) -> Self {
        Self(Arc::new(Shared { options, resting: Mutex::default() }))
    }

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
        let (link, rested) = match self.take() {
            Some(link) => (link, true),
            None => (open(&connect).await?, false),
        };
        let mut exchange = Exchange::new(link, head.borrow(), body);
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

    /// Whether nothing rests here, and nothing is on its way back.
    pub fn is_unused(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.lock().links.is_empty()
    }

    fn take(&self) -> Option<Link> {
        let mut resting = self.lock();
        while let Some((_, link)) = resting.links.pop() {
            if link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    pub(super) fn put(&self, mut link: Link) {
        link.tidy();
        let mut resting = self.lock();
        if resting.links.len() >= self.0.options.most_idle {
            return;
        }
        resting.links.push((Instant::now(), link));
        // Outside of a runtime the process is at its end.
        if !resting.swept
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            resting.swept = true;
            runtime.spawn(self.clone().sweep());
        }
    }

    /// Closes what has rested for long, until nothing rests any more.
    async fn sweep(self) {
        let idle = self.0.options.idle;
        loop {
            tokio::time::sleep(idle / 4).await;
            let mut resting = self.lock();
            let fresh_from = resting.links.partition_point(|(since, _)| since.elapsed() > idle);
            resting.links.drain(..fresh_from);
            if resting.links.is_empty() {
                *resting = Resting::default();
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Resting> {
        // Every update is whole before anything can fail.
        self.0.resting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request over a connection of its own, which ends with the response.
///
/// # Errors
/// See [`Error`].
pub async fn exchange<B, F>(
    request: Request<B>,
    connect: impl Fn() -> F,
) -> Result<Response<ResponseBody>, Error>
where
    B: RequestBody,
    F: Future<Output = io::Result<TcpStream>>,
{
    let (head, body) = request.into_parts();
    Pool::new(Options { idle: Duration::ZERO, most_idle: 0 }).send(head, body, connect).await
}

/// Boxed, as all that is rare: each request would have the room for it.
async fn open<F>(connect: impl Fn() -> F) -> Result<Link, Error>
where
    F: Future<Output = io::Result<TcpStream>>,
{
    Box::pin(connect()).await.map(Link::new).map_err(Error::Unreachable)
}

// === impl Exchange ===

impl<B: RequestBody> Exchange<B> {
    fn new(mut link: Link, head: &Parts, body: B) -> Self {
        let upload = Upload::new(head, body, std::mem::take(&mut link.head));
        Self { link, method: head.method.clone(), upload, broken: None, heard: false, read: Bytes::new() }
    }

    async fn head(&mut self) -> Result<ResponseHead, Error> {
        std::future::poll_fn(|cx| self.poll_head(cx)).await
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, Error>> {
        if self.broken.is_none() && !self.upload.is_done() {
            match self.upload.poll(cx, &mut self.link.stream) {
                Poll::Ready(Err(Error::Failed(error))) => self.broken = Some(error),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) | Poll::Pending => {}
            }
        }
        loop {
            match ready!(read_buffer::poll_read(&mut self.link.stream, cx, &mut self.read)) {
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

    fn restart(&mut self, link: Link) {
        self.link = link;
        self.upload.rewind();
    }

    /// The response, from which the connection returns to `pool`.
    fn answer(self, head: ResponseHead, pool: &Pool) -> Response<ResponseBody> {
        let ResponseHead { response, decoder, keeps_connection } = head;
        let Self { mut link, upload, broken, read, .. } = self;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return response.map(|()| ResponseBody::switched(ReadAhead::new(link.stream, read)));
        }
        let source = if upload.is_done() || broken.is_some() {
            link.head = upload.into_head();
            Source::Link(link)
        } else {
            go_on(upload, link.stream, keeps_connection)
        };
        let pool = (keeps_connection && broken.is_none()).then(|| pool.clone());
        response.map(|()| ResponseBody::new(Streaming { source, read, decoder, pool }))
    }
}

/// The other side answers before it has seen all. It gets the rest; unless it says that it reads no more, even behind the
/// end of its answer.
fn go_on<B: RequestBody>(mut upload: Upload<B>, stream: TcpStream, behind_the_end: bool) -> Source {
    let (read, mut write) = stream.into_split();
    let upload = tokio::spawn(async move {
        if let Err(error) = std::future::poll_fn(|cx| upload.poll(cx, &mut write)).await {
            tracing::debug!(%error, "a request that was answered before its end was cut");
            return;
        }
        // Or the other side would take it for the end of who waits for the answer.
        write.forget();
    });
    Source::Uploading { half: read, _upload: (!behind_the_end).then(|| AbortOnDropHandle::new(upload)) }
}
