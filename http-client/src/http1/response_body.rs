//! The body of a response. Its connection returns to the pool with the last byte.
//!
//! Reads only when the body is polled, so a slow client holds back the server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::bound_connection::ConnectionHome;
use super::connection::Connection;
use crate::error::BodyError;
use crate::late_upload::LateUpload;
use crate::read_ahead::ReadAhead;
use crate::read_buffer;
use crate::response::{Http2Body, ResponseDecoder};

#[derive(Debug)]
pub struct ResponseBody(BodyState);

/// A connection behind a response with status 101, from its first byte in the new protocol.
pub type SwitchedConnection = ReadAhead<TcpStream>;

#[derive(Debug)]
enum BodyState {
    Ended,
    ResponseStream(ResponseStream),
    /// Failed; the next poll returns the error.
    Failed(BodyError),
    SwitchedConnection(Box<SwitchedConnection>),
    Http2(Http2Body),
}

/// A body that is not complete.
#[derive(Debug)]
pub(crate) struct ResponseStream {
    pub(crate) source: StreamSource,
    /// Bytes that were read with the head or the previous frame.
    pub(crate) read: Bytes,
    pub(crate) decoder: ResponseDecoder,
    /// Where the connection returns to, if it is persistent.
    pub(crate) home: Option<ConnectionHome>,
}

/// Where the bytes of a body come from.
#[derive(Debug)]
pub(crate) enum StreamSource {
    /// A connection whose request is complete.
    Connection(Connection),
    /// A connection whose request is still being sent. It closes after both, or some time after the
    /// response.
    Uploading { half: OwnedReadHalf, upload: LateUpload },
}

type FramePoll = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

// === impl ResponseBody ===

impl ResponseBody {
    /// The body that `streaming` reads; complete at once if it is empty.
    pub(crate) fn new(streaming: ResponseStream) -> Self {
        if streaming.decoder != ResponseDecoder::Ended {
            return Self(BodyState::ResponseStream(streaming));
        }
        streaming.end();
        Self(BodyState::Ended)
    }

    pub(crate) fn switched(switched: SwitchedConnection) -> Self {
        Self(BodyState::SwitchedConnection(Box::new(switched)))
    }

    pub(crate) fn http2(body: Http2Body) -> Self {
        Self(BodyState::Http2(body))
    }

    /// Takes the connection of a response with status 101. Such a response has no body.
    pub fn take_switched(&mut self) -> Option<SwitchedConnection> {
        if !matches!(self.0, BodyState::SwitchedConnection(_)) {
            return None;
        }
        match std::mem::replace(&mut self.0, BodyState::Ended) {
            BodyState::SwitchedConnection(switched) => Some(*switched),
            _ => None,
        }
    }

    /// Returns the error with the next poll. A server that sees the error at once would drop the
    /// bytes before it, and its client could take the closed connection for a request without a
    /// response, and retry.
    fn fail(&mut self, error: BodyError, cx: &Context<'_>) -> FramePoll {
        self.0 = BodyState::Failed(error);
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn end(&mut self) {
        if let BodyState::ResponseStream(streaming) = std::mem::replace(&mut self.0, BodyState::Ended) {
            streaming.end();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> FramePoll {
        match &mut self.0 {
            BodyState::ResponseStream(streaming) => match ready!(streaming.poll_frame(cx)) {
                Some(Err(error)) => self.fail(error, cx),
                polled => {
                    if polled.is_none() || streaming.decoder == ResponseDecoder::Ended {
                        self.end();
                    }
                    Poll::Ready(polled)
                }
            },
            BodyState::Failed(_) => match std::mem::replace(&mut self.0, BodyState::Ended) {
                BodyState::Failed(error) => Poll::Ready(Some(Err(error))),
                _ => Poll::Ready(None),
            },
            BodyState::Http2(body) => body.poll_frame(cx),
            BodyState::Ended | BodyState::SwitchedConnection(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            BodyState::Ended | BodyState::SwitchedConnection(_) => true,
            BodyState::ResponseStream(_) | BodyState::Failed(_) => false,
            BodyState::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            BodyState::Ended | BodyState::SwitchedConnection(_) => SizeHint::with_exact(0),
            BodyState::ResponseStream(streaming) => streaming.decoder.size_hint(),
            BodyState::Failed(_) => SizeHint::default(),
            BodyState::Http2(body) => body.size_hint(),
        }
    }
}

// === impl ResponseStream ===

impl ResponseStream {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> FramePoll {
        loop {
            if let Some(frame) = self.decoder.decode(&mut self.read).map_err(|_| BodyError::InvalidCoding)? {
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

    /// Returns the connection to its home if no byte of a later message was read.
    fn end(self) {
        match (self.source, self.home) {
            (StreamSource::Connection(connection), Some(home))
                if self.decoder == ResponseDecoder::Ended && self.read.is_empty() =>
            {
                home.put(connection);
            }
            (StreamSource::Connection(_), _) => {}
            (StreamSource::Uploading { half, upload }, _) => upload.response_ended(half),
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
