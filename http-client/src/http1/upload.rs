//! Upload: a request on its way out, its head first and then its body, as fast as both sides allow.
//!
//! A body that comes with its head, as most do, leaves with it in one write.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::error::{BoxError, Error};

/// A part of a body up to this size, in bytes, is copied behind its head, to be one write with it.
const COPIED: usize = 16 * 1024;

/// The body of a request over HTTP/1.1.
pub trait RequestBody: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> RequestBody for B {}

/// A request that is being sent.
#[derive(Debug)]
pub(crate) struct Upload<B> {
    /// None after its last frame.
    body: Option<B>,
    /// Whether it had none from the start.
    is_head_alone: bool,
    /// Lists of the fields that the head says will follow the body.
    announced: Vec<HeaderValue>,
    framing: Framing,
    /// Goes out first: heads, sizes of chunks, small parts.
    head: Vec<u8>,
    sent: usize,
    /// Whether anything of it was sent.
    has_begun: bool,
    /// Goes out then: a large part as it came.
    part: Bytes,
}

/// How the other side sees where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// It has so many bytes more.
    Length(u64),
    /// It comes in chunks.
    Chunked,
}

// === impl Upload ===

impl<B> Upload<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// A request of which nothing was sent. Its head is written to `head`, over what is there.
    pub(crate) fn new(parts: &Parts, body: B, mut head: Vec<u8>) -> Self {
        head.clear();
        let framing = Framing::of(parts, &body);
        write_head(&mut head, parts, framing);
        let is_empty = framing == Framing::Length(0) && body.is_end_stream();
        let body = (!is_empty).then_some(body);
        let announced = match framing {
            Framing::Chunked => parts.headers.get_all(header::TRAILER).iter().cloned().collect(),
            Framing::Length(_) => Vec::new(),
        };
        let is_head_alone = body.is_none();
        let (sent, has_begun, part) = (0, false, Bytes::new());
        Self { body, is_head_alone, announced, framing, head, sent, has_begun, part }
    }

    /// Whether anything of it was sent.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether it is kept as a whole, to be sent once more.
    pub(crate) fn can_rewind(&self) -> bool {
        self.is_head_alone || !self.has_begun
    }

    /// Sends it once more from its start.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
        self.has_begun = false;
    }

    /// Whether all of it was sent.
    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.sent == self.head.len() && self.part.is_empty()
    }

    /// The room of its head, for another.
    pub(crate) fn into_head(self) -> Vec<u8> {
        self.head
    }

    /// Sends until all is sent.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Error>> {
        loop {
            // Before it is written: a body that is there goes with its head.
            let more = if self.has_room() { self.poll_next_part(cx)? } else { Poll::Ready(()) };
            ready!(self.poll_write(cx, to)).map_err(Error::Failed)?;
            if self.is_done() {
                return Poll::Ready(Ok(()));
            }
            ready!(more);
        }
    }

    /// Whether the body's next frame may be taken, though not all is sent that was taken before.
    fn has_room(&self) -> bool {
        self.part.is_empty() && self.head.len() - self.sent < COPIED
    }

    /// Takes the body's next frame.
    fn poll_next_part(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, Error> {
        let Some(body) = &mut self.body else { return Ok(Poll::Ready(())) };
        let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { return Ok(Poll::Pending) };
        match frame {
            Some(Ok(frame)) => self.take(frame)?,
            Some(Err(error)) => return Err(Error::RequestBody(error.into())),
            None => self.end(None)?,
        }
        Ok(Poll::Ready(()))
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Result<(), Error> {
        let frame = match frame.into_data() {
            Ok(part) => {
                self.take_part(part)?;
                let ended =
                    self.framing != Framing::Chunked && self.body.as_ref().is_some_and(B::is_end_stream);
                return if ended { self.end(None) } else { Ok(()) };
            }
            Err(frame) => frame,
        };
        // Frames of other kinds mean nothing here.
        frame.into_trailers().map_or(Ok(()), |trailers| self.end(Some(&trailers)))
    }

    fn take_part(&mut self, part: Bytes) -> Result<(), Error> {
        if part.is_empty() {
            return Ok(());
        }
        match &mut self.framing {
            // A chunk begins behind the end of the one before.
            Framing::Chunked => put(&mut self.head, format_args!("{:x}\r\n", part.len())),
            Framing::Length(left) => {
                let rest = left.checked_sub(part.len() as u64);
                *left = rest.ok_or_else(|| Error::RequestBody("it is longer than its head says".into()))?;
            }
        }
        if part.len() > COPIED {
            self.part = part;
            return Ok(());
        }
        self.head.extend_from_slice(&part);
        self.end_part();
        Ok(())
    }

    fn end_part(&mut self) {
        if self.framing == Framing::Chunked {
            self.head.extend_from_slice(b"\r\n");
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), Error> {
        self.body = None;
        match self.framing {
            Framing::Length(0) => Ok(()),
            Framing::Length(_) => Err(Error::RequestBody("it is shorter than its head says".into())),
            Framing::Chunked => {
                self.head.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.into_iter().flatten() {
                    if may_trail(name) && self.announced.iter().any(|list| names(list, name)) {
                        write_header(&mut self.head, name, value);
                    }
                }
                self.head.extend_from_slice(b"\r\n");
                Ok(())
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        loop {
            let unsent = self.head.get(self.sent..).unwrap_or_default();
            let from = if unsent.is_empty() { &self.part[..] } else { unsent };
            if from.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let is_part = unsent.is_empty();
            let written = ready!(Pin::new(&mut *to).poll_write(cx, from))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.has_begun = true;
            if is_part {
                self.part.advance(written);
                if self.part.is_empty() {
                    self.end_part();
                    // The next part may be there to go with the end of this one.
                    return Poll::Ready(Ok(()));
                }
            } else {
                self.sent += written;
                self.forget_sent();
            }
        }
    }

    /// A head alone stays, to be sent again.
    fn forget_sent(&mut self) {
        if self.sent == self.head.len() && !self.is_head_alone {
            self.head.clear();
            self.sent = 0;
        }
    }
}

// === impl Framing ===

impl Framing {
    fn of(parts: &Parts, body: &impl Body) -> Self {
        if parts.headers.contains_key(header::TRANSFER_ENCODING) {
            return Self::Chunked;
        }
        let length =
            parts.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        match length {
            Some(length) => Self::Length(length),
            None if body.is_end_stream() => Self::Length(0),
            None => Self::Chunked,
        }
    }
}

fn write_head(to: &mut Vec<u8>, parts: &Parts, framing: Framing) {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    to.extend_from_slice(parts.method.as_str().as_bytes());
    to.push(b' ');
    to.extend_from_slice(target.as_bytes());
    to.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in &parts.headers {
        write_header(to, name, value);
    }
    if framing == Framing::Chunked && !parts.headers.contains_key(header::TRANSFER_ENCODING) {
        to.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    to.extend_from_slice(b"\r\n");
}

fn write_header(to: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    to.extend_from_slice(name.as_str().as_bytes());
    to.extend_from_slice(b": ");
    to.extend_from_slice(value.as_bytes());
    to.extend_from_slice(b"\r\n");
}

/// Whether a field still means something behind the body, and cannot be mistaken for the head's (RFC 9110, 6.5.1).
fn may_trail(name: &HeaderName) -> bool {
    const HEAD_ALONE: [HeaderName; 12] = [
        header::AUTHORIZATION,
        header::CACHE_CONTROL,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::HOST,
        header::MAX_FORWARDS,
        header::SET_COOKIE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
    ];
    !HEAD_ALONE.contains(name)
}

fn names(list: &HeaderValue, name: &HeaderName) -> bool {
    let list = list.to_str().unwrap_or_default();
    list.split(',').any(|entry| entry.trim().eq_ignore_ascii_case(name.as_str()))
}

fn put(to: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    // Memory takes all that is written to it.
    let _ = to.write_fmt(what);
}
