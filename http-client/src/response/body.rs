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

use super::decoder::ResponseDecoder;
use crate::http1::{Connection, Pool};
use crate::read_ahead::ReadAhead;
use crate::read_buffer;

/// The rest of a response.
#[derive(Debug)]
pub struct ResponseBody(State);

/// A connection that has left HTTP/1.1 for another protocol, from the first byte behind the response that switched it.
pub type SwitchedConnection = ReadAhead<TcpStream>;

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
    ResponseStream(ResponseStream),
    /// Failed, and whoever takes the body has still to be told.
    Failed(BodyError),
    SwitchedConnection(Box<SwitchedConnection>),
    Http2(Incoming),
}

/// A body that is still coming.
#[derive(Debug)]
pub(crate) struct ResponseStream {
    pub(crate) source: StreamSource,
    /// Came already.
    pub(crate) read: Bytes,
    pub(crate) decoder: ResponseDecoder,
    /// Where the connection goes, if another request may follow on it.
    pub(crate) pool: Option<Pool>,
}

/// What a body comes from.
#[derive(Debug)]
pub(crate) enum StreamSource {
    /// A connection that has nothing else to do.
    Connection(Connection),
    /// One over which the request is still going out. It ends with both, or with the response if that says so.
    Uploading { half: OwnedReadHalf, _upload: Option<AbortOnDropHandle<()>> },
}

type Polled = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

// === impl ResponseBody ===

impl ResponseBody {
    /// The body that `streaming` brings. None at all is at its end.
    pub(crate) fn new(streaming: ResponseStream) -> Self {
        if streaming.decoder != ResponseDecoder::Ended {
            return Self(State::ResponseStream(streaming));
        }
        streaming.end();
        Self(State::Ended)
    }

    pub(crate) fn switched(switched: SwitchedConnection) -> Self {
        Self(State::SwitchedConnection(Box::new(switched)))
    }

    /// The connection, if the response has switched its protocol. Such a response has no body.
    pub fn take_switched(&mut self) -> Option<SwitchedConnection> {
        if !matches!(self.0, State::SwitchedConnection(_)) {
            return None;
        }
        match std::mem::replace(&mut self.0, State::Ended) {
            State::SwitchedConnection(switched) => Some(*switched),
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
        if let State::ResponseStream(streaming) = std::mem::replace(&mut self.0, State::Ended) {
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
            State::ResponseStream(streaming) => match ready!(streaming.poll_frame(cx)) {
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
            State::Ended | State::SwitchedConnection(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            State::Ended | State::SwitchedConnection(_) => true,
            State::ResponseStream(_) | State::Failed(_) => false,
            State::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            State::Ended | State::SwitchedConnection(_) => SizeHint::with_exact(0),
            State::ResponseStream(streaming) => streaming.decoder.size_hint(),
            State::Failed(_) => SizeHint::default(),
            State::Http2(body) => body.size_hint(),
        }
    }
}

// === impl ResponseStream ===

impl ResponseStream {
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
        if let (StreamSource::Connection(connection), Some(pool)) = (self.source, self.pool)
            && self.decoder == ResponseDecoder::Ended
            && self.read.is_empty()
        {
            pool.put(connection);
        }
    }
}

// === impl StreamSource ===

impl AsyncRead for StreamSource {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Connection(connection) => Pin::new(&mut connection.stream).poll_read(cx, buffer),
            Self::Uploading { half, .. } => Pin::new(half).poll_read(cx, buffer),
        }
    }
}
