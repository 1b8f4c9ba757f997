//! Decodes a response body from the bytes of its connection (RFC 9112, 6 and 7).

use std::io;

use bytes::{Buf, Bytes};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use httparse::Status;

/// Largest number of trailer fields, as of headers.
const MAX_TRAILERS: usize = 100;
/// Largest trailer section, and largest chunk-size line with its extensions, in bytes.
const MAX_BYTES: usize = 16 * 1024;

const END_OF_LINE: &[u8] = b"\r\n";

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseDecoder {
    /// Bytes left, at least one.
    Length(u64),
    Chunked(Chunk),
    /// Everything until the connection closes.
    UntilClose,
    /// The body is complete.
    Ended,
}

/// Position within chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Before a chunk size.
    Size,
    /// Within a chunk; bytes left, at least one.
    Data(u64),
    /// Before the line end behind a chunk's data.
    End,
    /// Behind the last chunk.
    Trailers,
}

/// Invalid chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid chunked coding")]
pub(crate) struct InvalidCoding;

// === impl ResponseDecoder ===

impl ResponseDecoder {
    pub(crate) fn length(length: u64) -> Self {
        if length == 0 { Self::Ended } else { Self::Length(length) }
    }

    pub(crate) fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    /// Removes the next frame from the start of `read`. `None` if more bytes are needed or the body
    /// is complete.
    pub(crate) fn decode(&mut self, read: &mut Bytes) -> Result<Option<Frame<Bytes>>, InvalidCoding> {
        match self {
            Self::Ended => Ok(None),
            Self::Length(left) => {
                let part = take(left, read);
                if *left == 0 {
                    *self = Self::Ended;
                }
                Ok(part)
            }
            Self::UntilClose => Ok((!read.is_empty()).then(|| Frame::data(std::mem::take(read)))),
            Self::Chunked(_) => self.decode_chunks(read),
        }
    }

    /// The error if the connection closes at this point.
    pub(crate) fn at_close(&self) -> Option<io::Error> {
        let ended = matches!(self, Self::Ended | Self::UntilClose);
        (!ended).then(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Bytes left, if known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ended => SizeHint::with_exact(0),
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(_) | Self::UntilClose => SizeHint::default(),
        }
    }

    fn decode_chunks(&mut self, read: &mut Bytes) -> Result<Option<Frame<Bytes>>, InvalidCoding> {
        while let Self::Chunked(chunk) = self {
            let before = *chunk;
            match chunk {
                Chunk::Size => match size(read)? {
                    Some(0) => *chunk = Chunk::Trailers,
                    Some(size) => *chunk = Chunk::Data(size),
                    None => {}
                },
                Chunk::Data(left) => {
                    let part = take(left, read);
                    if *left == 0 {
                        *chunk = Chunk::End;
                    }
                    return Ok(part);
                }
                Chunk::End => {
                    if end_of_line(read)? {
                        *chunk = Chunk::Size;
                    }
                }
                Chunk::Trailers => {
                    let Some(trailers) = trailers(read)? else { return Ok(None) };
                    *self = Self::Ended;
                    return Ok((!trailers.is_empty()).then(|| Frame::trailers(trailers)));
                }
            }
            if matches!(self, Self::Chunked(chunk) if *chunk == before) {
                return Ok(None);
            }
        }
        Ok(None)
    }
}

/// Removes up to `left` bytes from `read`.
fn take(left: &mut u64, read: &mut Bytes) -> Option<Frame<Bytes>> {
    if read.is_empty() {
        return None;
    }
    let part = read.split_to(usize::try_from(*left).map_or(read.len(), |left| left.min(read.len())));
    *left = left.saturating_sub(part.len() as u64);
    Some(Frame::data(part))
}

/// Removes a chunk-size line.
fn size(read: &mut Bytes) -> Result<Option<u64>, InvalidCoding> {
    match httparse::parse_chunk_size(read).map_err(|_| InvalidCoding)? {
        Status::Complete((length, size)) => {
            let line = read.split_to(length);
            // httparse accepts an empty size as 0, and any byte in an extension.
            let is_clear = line.first().is_some_and(u8::is_ascii_hexdigit)
                && line.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count() == END_OF_LINE.len();
            if is_clear { Ok(Some(size)) } else { Err(InvalidCoding) }
        }
        Status::Partial if read.len() > MAX_BYTES => Err(InvalidCoding),
        Status::Partial => Ok(None),
    }
}

fn end_of_line(read: &mut Bytes) -> Result<bool, InvalidCoding> {
    if read.starts_with(END_OF_LINE) {
        read.advance(END_OF_LINE.len());
        return Ok(true);
    }
    if END_OF_LINE.starts_with(read) { Ok(false) } else { Err(InvalidCoding) }
}

fn trailers(read: &mut Bytes) -> Result<Option<HeaderMap>, InvalidCoding> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_TRAILERS];
    let (length, lines) = match httparse::parse_headers(read, &mut lines).map_err(|_| InvalidCoding)? {
        Status::Complete(parsed) => parsed,
        Status::Partial if read.len() > MAX_BYTES => return Err(InvalidCoding),
        Status::Partial => return Ok(None),
    };
    let mut trailers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| InvalidCoding)?;
        let value = HeaderValue::from_maybe_shared(read.slice_ref(line.value)).map_err(|_| InvalidCoding)?;
        trailers.append(name, value);
    }
    read.advance(length);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All data and trailers of `bytes`, given in parts of `step` bytes, and what is left behind
    /// the body.
    fn decoded(
        mut decoder: ResponseDecoder,
        bytes: &[u8],
        step: usize,
    ) -> Result<(String, HeaderMap, Bytes), InvalidCoding> {
        let (mut data, mut trailers, mut read) = (Vec::new(), HeaderMap::new(), Bytes::new());
        for part in bytes.chunks(step) {
            read = Bytes::from([&read[..], part].concat());
            while let Some(frame) = decoder.decode(&mut read)? {
                match frame.into_data() {
                    Ok(part) => data.extend_from_slice(&part),
                    Err(frame) => trailers = frame.into_trailers().unwrap(),
                }
            }
        }
        assert!(matches!(decoder, ResponseDecoder::Ended | ResponseDecoder::UntilClose));
        Ok((String::from_utf8(data).unwrap(), trailers, read))
    }

    #[test]
    fn decodes_equally_for_every_split_of_the_input() {
        let chunks = b"4\r\nwiki\r\n00A;ext=\"1\"\r\n0123456789\r\n0\r\nsum: 7\r\n\r\nrest";
        for step in 1..chunks.len() {
            let (data, trailers, rest) = decoded(ResponseDecoder::chunked(), chunks, step).unwrap();
            assert_eq!(
                (data.as_str(), &trailers["sum"], &rest[..]),
                ("wiki0123456789", &"7".parse().unwrap(), &b"rest"[..])
            );
            let (data, _, rest) = decoded(ResponseDecoder::length(8), b"01234567rest", step).unwrap();
            assert_eq!((data.as_str(), &rest[..]), ("01234567", &b"rest"[..]));
            let (data, _, rest) = decoded(ResponseDecoder::UntilClose, b"all there is", step).unwrap();
            assert_eq!((data.as_str(), rest.len()), ("all there is", 0));
        }
    }

    #[test]
    fn rejects_invalid_chunks() {
        for bytes in [
            "4\nwiki\r\n0\r\n\r\n",
            "-1\r\n",
            "g\r\n",
            "10000000000000000\r\n",
            "\r\n",
            "1;a\nb\r\n",
            "4\r\nwikipedia\r\n",
            "4\r\nwiki0\r\n\r\n",
            "0\r\nno colon\r\n\r\n",
            "0\r\n: nameless\r\n\r\n",
        ] {
            for step in [1, bytes.len()] {
                assert_eq!(
                    decoded(ResponseDecoder::chunked(), bytes.as_bytes(), step).unwrap_err(),
                    InvalidCoding,
                    "{bytes:?}"
                );
            }
        }
    }

    #[test]
    fn rejects_unbounded_chunk_sizes_and_trailers() {
        for endless in ["1;", "0\r\na:"] {
            let mut decoder = ResponseDecoder::chunked();
            let mut read = Bytes::from([endless.as_bytes(), &vec![b'a'; 2 * MAX_BYTES]].concat());
            assert_eq!(decoder.decode(&mut read).unwrap_err(), InvalidCoding, "{endless:?}");
        }
    }
}
