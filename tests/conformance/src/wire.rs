//! HTTP/1 as bytes, parsed as strictly as the grammar of RFC 9112 allows.
//!
//! The test client and the test app use this parser instead of the proxies' HTTP library. Messages
//! that the library accepts, but other peers would parse differently, fail here.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Start line and headers, with names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// Request or status line.
    pub start: String,
    /// In the order of arrival.
    pub fields: Vec<(String, String)>,
}

/// Framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// After so many bytes.
    Sized(usize),
    /// In chunks, optionally followed by trailers.
    Chunked,
    /// Until the end of the connection.
    UntilClosed,
}

/// The body and trailers after a head.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Content without the framing.
    pub bytes: Vec<u8>,
    /// Trailers of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The connection ended before the body did.
    pub cut: bool,
}

/// Why a message could not be parsed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The connection ended, or was reset.
    #[error("the connection ended")]
    Ended,
    /// It is not HTTP/1.
    #[error("malformed: {0}")]
    Malformed(String),
}

/// A connection with a read buffer.
#[derive(Debug)]
pub struct Wire<S> {
    stream: S,
    buffer: Vec<u8>,
    was_reset: bool,
}

// === impl Head ===

impl Head {
    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|(field, _)| field == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A request's framing.
    ///
    /// # Errors
    /// When the framing is ambiguous.
    pub fn framing_of_request(&self) -> Result<Framing, ReadError> {
        Ok(self.framing()?.unwrap_or(Framing::Sized(0)))
    }

    /// The framing of a response, which is `to_head` if the request was HEAD.
    ///
    /// # Errors
    /// When the framing is ambiguous.
    pub fn framing_of_response(&self, to_head: bool) -> Result<Framing, ReadError> {
        let framing = self.framing()?;
        let status = self.status()?;
        if status < 200 || status == 204 {
            if framing.is_some() {
                return Err(malformed(format!("a {status} with framing")));
            }
            return Ok(Framing::Sized(0));
        }
        if to_head || status == 304 {
            Ok(Framing::Sized(0))
        } else {
            Ok(framing.unwrap_or(Framing::UntilClosed))
        }
    }

    /// The status of a response.
    ///
    /// # Errors
    /// When the start line is not a status line.
    pub fn status(&self) -> Result<u16, ReadError> {
        let mut parts = self.start.splitn(3, ' ');
        let (version, code) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_valid =
            matches!(version, "HTTP/1.1" | "HTTP/1.0") && code.len() == 3 && parts.next().is_some();
        code.parse()
            .ok()
            .filter(|_| is_valid)
            .ok_or_else(|| malformed(format!("status line {:?}", self.start)))
    }

    fn framing(&self) -> Result<Option<Framing>, ReadError> {
        match (self.all("transfer-encoding").as_slice(), self.all("content-length").as_slice()) {
            ([], []) => Ok(None),
            (["chunked"], []) => Ok(Some(Framing::Chunked)),
            ([], [length]) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                let length = length.parse().map_err(|_| malformed(format!("length {length:?}")))?;
                Ok(Some(Framing::Sized(length)))
            }
            (codings, lengths) => Err(malformed(format!("framing {codings:?} and {lengths:?}"))),
        }
    }
}

// === impl Wire ===

impl Wire<TcpStream> {
    /// Makes the close of the connection a reset: a linger time of zero.
    ///
    /// # Errors
    /// When it is not a connection any more.
    #[allow(deprecated, reason = "with zero it does not block, which is why it was deprecated")]
    pub fn set_reset(&self) -> std::io::Result<()> {
        self.stream.set_linger(Some(Duration::ZERO))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    /// Wraps a connection.
    pub fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new(), was_reset: false }
    }

    /// The connection itself; valid while nothing is buffered.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Writes. A closed peer is not an error, because its earlier response matters.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// Closes the sending direction.
    pub async fn close_write(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads more into the buffer; false at the end or a reset.
    pub async fn more(&mut self) -> bool {
        match self.stream.read_buf(&mut self.buffer).await {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => {
                self.was_reset = error.kind() == ErrorKind::ConnectionReset;
                false
            }
        }
    }

    /// Whether the connection has ended with a reset.
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// The buffered bytes.
    pub fn peek(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads exactly so many bytes, or fewer at the end of the connection.
    pub async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.buffer.len() < count && self.more().await {}
        self.buffer.drain(..count.min(self.buffer.len())).collect()
    }

    /// Reads a head; `None` at the end of the connection.
    ///
    /// # Errors
    /// See [`Broken`].
    pub async fn head(&mut self) -> Result<Option<Head>, ReadError> {
        if self.buffer.is_empty() && !self.more().await {
            return Ok(None);
        }
        let start = text(&self.line().await?)?;
        Ok(Some(Head { start, fields: self.fields().await? }))
    }

    /// Reads a body. An incomplete body is not an error.
    ///
    /// # Errors
    /// When chunks are malformed.
    pub async fn body(&mut self, framing: Framing) -> Result<Body, ReadError> {
        let mut body = Body::default();
        match framing {
            Framing::Sized(length) => {
                body.bytes = self.take(length).await;
                body.cut = body.bytes.len() < length;
            }
            Framing::Chunked => match self.chunks(&mut body).await {
                Err(ReadError::Ended) => body.cut = true,
                result => result?,
            },
            Framing::UntilClosed => {
                body.bytes = self.take(usize::MAX).await;
                body.cut = self.was_reset;
            }
        }
        Ok(body)
    }

    async fn chunks(&mut self, body: &mut Body) -> Result<(), ReadError> {
        loop {
            let line = text(&self.line().await?)?;
            let hex = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
            let size = usize::from_str_radix(&line, 16).ok().filter(|_| hex);
            let size = size.ok_or_else(|| malformed(format!("chunk size {line:?}")))?;
            if size == 0 {
                body.trailers = self.fields().await?;
                return Ok(());
            }
            let mut chunk = self.take(size).await;
            let whole = chunk.len() == size;
            body.bytes.append(&mut chunk);
            if !whole {
                return Err(ReadError::Ended);
            }
            if !self.line().await?.is_empty() {
                return Err(malformed("a chunk longer than its size"));
            }
        }
    }

    async fn fields(&mut self) -> Result<Vec<(String, String)>, ReadError> {
        let mut fields = Vec::new();
        loop {
            let line = text(&self.line().await?)?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) = line.split_once(':').ok_or_else(|| malformed(format!("header {line:?}")))?;
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(malformed(format!("header name {name:?}")));
            }
            fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
        }
    }

    async fn line(&mut self) -> Result<Vec<u8>, ReadError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=end).collect();
                line.pop();
                return match line.pop() {
                    Some(b'\r') => Ok(line),
                    _ => Err(malformed(format!("bare LF after {}", String::from_utf8_lossy(&line)))),
                };
            }
            if !self.more().await {
                return Err(ReadError::Ended);
            }
        }
    }
}

/// Decodes bytes as Latin-1, so that every byte is visible.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn text(line: &[u8]) -> Result<String, ReadError> {
    let control = |byte: &u8| (*byte < 0x20 && *byte != b'\t') || *byte == 0x7f;
    if line.iter().any(control) {
        return Err(malformed(format!("control byte in {:?}", latin1(line))));
    }
    Ok(latin1(line))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn malformed(what: impl Into<String>) -> ReadError {
    ReadError::Malformed(what.into())
}
