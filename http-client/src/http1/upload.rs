//! Serializes a request: its head, then its body, as fast as the client and the server allow.
//!
//! A small body that is available with its head, the usual case, leaves in the same write.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::error::{BoxError, Error};

/// Body frames up to this size, in bytes, are copied behind the head and leave in one write with
/// it.
const MAX_COPIED: usize = 16 * 1024;

/// A request that is being written.
#[derive(Debug)]
pub(crate) struct Upload<B> {
    /// `None` after its last frame.
    body: Option<B>,
    /// Whether the request has no body at all.
    has_no_body: bool,
    /// Values of `Trailer`: only these fields may follow the body.
    allowed_trailers: Vec<HeaderValue>,
    framing: Framing,
    /// Written first: the head, chunk sizes, small frames.
    head: Vec<u8>,
    sent: usize,
    /// Whether any byte was written.
    has_begun: bool,
    /// Whether bytes that were written are no longer in `head`.
    has_discarded: bool,
    /// Written second: a frame too large to copy.
    part: Bytes,
}

/// How the server finds the end of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// Bytes left.
    Length(u64),
    /// Chunked coding.
    Chunked,
}

// === impl Upload ===

impl<B> Upload<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Serializes the head of a request into `head`, replacing its content.
    pub(crate) fn new(parts: &Parts, body: B, mut head: Vec<u8>) -> Self {
        head.clear();
        let framing = Framing::of(parts, &body);
        write_head(&mut head, parts, framing);
        let is_empty = framing == Framing::Length(0) && body.is_end_stream();
        let body = (!is_empty).then_some(body);
        let allowed_trailers = match framing {
            Framing::Chunked => parts.headers.get_all(header::TRAILER).iter().cloned().collect(),
            Framing::Length(_) => Vec::new(),
        };
        let has_no_body = body.is_none();
        Self {
            body,
            has_no_body,
            allowed_trailers,
            framing,
            head,
            sent: 0,
            has_begun: false,
            has_discarded: false,
            part: Bytes::new(),
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// True if all that was read of the request is still in memory.
    pub(crate) fn can_rewind(&self) -> bool {
        !self.has_discarded
    }

    /// Starts again from the first byte.
    pub(crate) fn rewind(&mut self) {
        self.sent = 0;
        self.has_begun = false;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.body.is_none() && self.sent == self.head.len() && self.part.is_empty()
    }

    /// The head buffer, for the next request.
    pub(crate) fn into_head(self) -> Vec<u8> {
        self.head
    }

    /// Writes until everything is sent.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Error>> {
        loop {
            // Polled before the write: a body that is available leaves with its head.
            let more = if self.has_room() { self.poll_next_part(cx)? } else { Poll::Ready(()) };
            ready!(self.poll_write(cx, to)).map_err(Error::Failed)?;
            if self.is_done() {
                return Poll::Ready(Ok(()));
            }
            ready!(more);
        }
    }

    /// True if the next frame fits, though earlier ones are not all written.
    fn has_room(&self) -> bool {
        self.part.is_empty() && self.head.len() - self.sent < MAX_COPIED
    }

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
        // Frames are data or trailers; there are no others today.
        frame.into_trailers().map_or(Ok(()), |trailers| self.end(Some(&trailers)))
    }

    fn take_part(&mut self, part: Bytes) -> Result<(), Error> {
        if part.is_empty() {
            return Ok(());
        }
        match &mut self.framing {
            // The previous chunk's end is written with it.
            Framing::Chunked => put(&mut self.head, format_args!("{:x}\r\n", part.len())),
            Framing::Length(left) => {
                let rest = left.checked_sub(part.len() as u64);
                *left =
                    rest.ok_or_else(|| Error::RequestBody("it is longer than its Content-Length".into()))?;
            }
        }
        if part.len() > MAX_COPIED {
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
            Framing::Length(_) => Err(Error::RequestBody("it is shorter than its Content-Length".into())),
            Framing::Chunked => {
                self.head.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.into_iter().flatten() {
                    if may_trail(name) && self.allowed_trailers.iter().any(|list| names(list, name)) {
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
                self.has_discarded = true;
                if self.part.is_empty() {
                    self.end_part();
                    // Return: the next frame may be available to leave with this one's end.
                    return Poll::Ready(Ok(()));
                }
            } else {
                self.sent += written;
                self.discard_sent();
            }
        }
    }

    /// A request without a body, or with a small one, is kept to be sent again.
    fn discard_sent(&mut self) {
        if self.sent == self.head.len() && self.head.len() > MAX_COPIED && !self.has_no_body {
            self.head.clear();
            self.sent = 0;
            self.has_discarded = true;
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

/// True if a field is allowed in a trailer (RFC 9110, 6.5.1): not one that changes framing, routing
/// or authentication.
fn may_trail(name: &HeaderName) -> bool {
    const FORBIDDEN: [HeaderName; 12] = [
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
    !FORBIDDEN.contains(name)
}

fn names(list: &HeaderValue, name: &HeaderName) -> bool {
    let list = list.to_str().unwrap_or_default();
    list.split(',').any(|entry| entry.trim().eq_ignore_ascii_case(name.as_str()))
}

fn put(to: &mut Vec<u8>, what: std::fmt::Arguments<'_>) {
    // Writing to memory cannot fail.
    let _ = to.write_fmt(what);
}
