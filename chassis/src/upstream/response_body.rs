//! ResponseBody: a response's body on its way back; the connection returns to its pool with the last of it.
//!
//! Nothing is read ahead of whoever takes the body, but for what came with the read before.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio_util::task::AbortOnDropHandle;

use super::link::Link;
use super::pool::Pool;
use super::response_decoder::ResponseDecoder;
use crate::read_ahead::ReadAhead;
use crate::read_buffer;

/// The rest of a response.
#[derive(Debug)]
pub struct ResponseBody(State);

/// A connection that has left HTTP/1.1 for another protocol, from the first byte behind the response that switched it.
pub type Switched = ReadAhead<TcpStream>;

/// Why a body ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection ended or failed.
    #[error("the connection failed within the response: {0}")]
    Cut(#[from] io::Error),
    /// What came is no body of the kind that the head has told of.
    #[error("the response's body breaks the rules of its coding")]
    Malformed,
    /// An HTTP/2 stream failed.
    #[error(transparent)]
    Http2(hyper::Error),
}

#[derive(Debug)]
enum State {
    Ended,
    Streaming(Streaming),
    /// Failed, and whoever takes the body has still to be told.
    Failed(BodyError),
    Switched(Box<Switched>),
    Http2(Incoming),
}

/// A body that is still coming.
#[derive(Debug)]
pub(super) struct Streaming {
    pub(super) source: Source,
    /// Came already.
    pub(super) read: Bytes,
    pub(super) decoder: ResponseDecoder,
    /// Where the connection goes, if another request may follow on it.
    pub(super) pool: Option<Pool>,
}

/// What a body comes from.
#[derive(Debug)]
pub(super) enum Source {
    /// A connection that has nothing else to do.
    Link(Link),
    /// One over which the request is still going out. It ends with both, or with the response if that says so.
    Uploading { half: OwnedReadHalf, _upload: Option<AbortOnDropHandle<()>> },
}

type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

// === impl ResponseBody ===

impl ResponseBody {
    /// The body that `streaming` brings. None at all is at its end.
    pub(super) fn new(streaming: Streaming) -> Self {
        if streaming.decoder != ResponseDecoder::Ended {
            return Self(State::Streaming(streaming));
        }
        streaming.end();
        Self(State::Ended)
    }

    pub(super) fn switched(switched: Switched) -> Self {
        Self(State::Switched(Box::new(switched)))
    }

    /// The connection, if the response has switched its protocol. Such a response has no body.
    pub fn take_switched(&mut self) -> Option<Switched> {
        if !matches!(self.0, State::Switched(_)) {
            return None;
        }
        match std::mem::replace(&mut self.0, State::Ended) {
            State::Switched(switched) => Some(*switched),
            _ => None,
        }
    }

    /// Fails with the next poll: a server that is told at once does not send what came before, and its caller sees a
    /// connection that was closed without an answer, on which it may ask again.
    fn fail(&mut self, error: BodyError, cx: &Context<'_>) -> Polled {
        self.0 = State::Failed(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn end(&mut self) {
        if let State::Streaming(streaming) = std::mem::replace(&mut self.0, State::Ended) {
            streaming.end();
        }
    }
}

impl From<Incoming> for ResponseBody {
    /// The body of a response over HTTP/2.
    fn from(body: Incoming) -> Self {
        Self(State::Http2(body))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Polled {
        match &mut self.0 {
            State::Streaming(streaming) => match ready!(streaming.poll_frame(cx)) {
                Some(Err(error)) => self.fail(error, cx),
                polled => {
                    if polled.is_none() || streaming.decoder == ResponseDecoder::Ended {
                        self.end();
                    }
                    Poll::Ready(polled)
                }
            },
            State::Failed(_) => match std::mem::replace(&mut self.0, State::Ended) {
                State::Failed(error) => Poll::Ready(Some(Err(error))),
                _ => Poll::Ready(None),
            },
            State::Http2(body) => Pin::new(body).poll_frame(cx).map_err(BodyError::Http2),
            State::Ended | State::Switched(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Ended | State::Switched(_) => true,
            State::Streaming(_) | State::Failed(_) => false,
            State::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Ended | State::Switched(_) => SizeHint::with_exact(0),
            State::Streaming(streaming) => streaming.decoder.size_hint(),
            State::Failed(_) => SizeHint::default(),
            State::Http2(body) => body.size_hint(),
        }
    }
}

// === impl Streaming ===

impl Streaming {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.read).map_err(|_| BodyError::Malformed)? {
                return Poll::Ready(Some(Ok(frame)));
            }
            if self.decoder == ResponseDecoder::Ended {
                return Poll::Ready(None);
            }
            if ready!(read_buffer::poll_read(&mut self.source, cx, &mut self.read))? == 0 {
                return Poll::Ready(self.decoder.at_close().map(|cut| Err(cut.into())));
            }
        }
    }

    /// Gives the connection back if it is where the next response would begin.
    fn end(self) {
        if let (Source::Link(link), Some(pool)) = (self.source, self.pool)
            && self.decoder == ResponseDecoder::Ended
            && self.read.is_empty()
        {
            pool.put(link);
        }
    }
}

// === impl Source ===

impl AsyncRead for Source {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Link(link) => Pin::new(&mut link.stream).poll_read(cx, buffer),
            Self::Uploading { half, .. } => Pin::new(half).poll_read(cx, buffer),
        }
    }
}
