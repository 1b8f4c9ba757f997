//! ResponseDecoder: takes a response's body out of the bytes that carry it (RFC 9112, 6 and 7).

use std::io;

use bytes::{Buf, Bytes};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use httparse::Status;

/// Fields behind a body.
const MOST_TRAILERS: usize = 64;
/// Bytes of all of them, or of one chunk's size with its extensions.
const MOST_BYTES: usize = 16 * 1024;

const END_OF_LINE: &[u8] = b"\r\n";

/// What of a body is still to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseDecoder {
    /// So many bytes, at least one.
    Length(u64),
    /// Chunks.
    Chunked(Chunk),
    /// All that comes.
    UntilClose,
    /// Nothing.
    Ended,
}

/// Where in a chunk the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Before its size.
    Size,
    /// Before so many bytes of its data, at least one.
    Data(u64),
    /// Before the end of its line.
    End,
    /// Behind the last.
    Trailers,
}

/// The bytes are no chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body breaks the rules of its coding")]
pub(crate) struct Malformed;

// === impl ResponseDecoder ===

impl ResponseDecoder {
    pub(crate) fn length(length: u64) -> Self {
        if length == 0 { Self::Ended } else { Self::Length(length) }
    }

    pub(crate) fn chunked() -> Self {
        Self::Chunked(Chunk::Size)
    }

    /// The next part of the body that is at the start of `read`, if it is there.
    pub(crate) fn decode(&mut self, read: &mut Bytes) -> Result<Option<Frame<Bytes>>, Malformed> {
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

    /// What it means that the connection was closed here.
    pub(crate) fn at_close(&self) -> Option<io::Error> {
        let ended = matches!(self, Self::Ended | Self::UntilClose);
        (!ended).then(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Bytes that are still to come.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ended => SizeHint::with_exact(0),
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(_) | Self::UntilClose => SizeHint::default(),
        }
    }

    fn decode_chunks(&mut self, read: &mut Bytes) -> Result<Option<Frame<Bytes>>, Malformed> {
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

/// What there is of `left` bytes.
fn take(left: &mut u64, read: &mut Bytes) -> Option<Frame<Bytes>> {
    if read.is_empty() {
        return None;
    }
    let part = read.split_to(usize::try_from(*left).map_or(read.len(), |left| left.min(read.len())));
    *left = left.saturating_sub(part.len() as u64);
    Some(Frame::data(part))
}

/// The size of the next chunk, whose data `read` then begins with.
fn size(read: &mut Bytes) -> Result<Option<u64>, Malformed> {
    match httparse::parse_chunk_size(read).map_err(|_| Malformed)? {
        Status::Complete((length, size)) => {
            let line = read.split_to(length);
            // The parser takes no digits for 0, and any byte in an extension.
            let is_clear = line.first().is_some_and(u8::is_ascii_hexdigit)
                && line.iter().filter(|byte| matches!(byte, b'\r' | b'\n')).count() == END_OF_LINE.len();
            if is_clear { Ok(Some(size)) } else { Err(Malformed) }
        }
        Status::Partial if read.len() > MOST_BYTES => Err(Malformed),
        Status::Partial => Ok(None),
    }
}

fn end_of_line(read: &mut Bytes) -> Result<bool, Malformed> {
    if read.starts_with(END_OF_LINE) {
        read.advance(END_OF_LINE.len());
        return Ok(true);
    }
    if END_OF_LINE.starts_with(read) { Ok(false) } else { Err(Malformed) }
}

fn trailers(read: &mut Bytes) -> Result<Option<HeaderMap>, Malformed> {
    let mut lines = [httparse::EMPTY_HEADER; MOST_TRAILERS];
    let (length, lines) = match httparse::parse_headers(read, &mut lines).map_err(|_| Malformed)? {
        Status::Complete(parsed) => parsed,
        Status::Partial if read.len() > MOST_BYTES => return Err(Malformed),
        Status::Partial => return Ok(None),
    };
    let mut trailers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| Malformed)?;
        let value = HeaderValue::from_maybe_shared(read.slice_ref(line.value)).map_err(|_| Malformed)?;
        trailers.append(name, value);
    }
    read.advance(length);
    Ok(Some(trailers))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All data and trailers of `bytes`, given in parts of `step` bytes, and what is left behind the body.
    fn decoded(
        mut decoder: ResponseDecoder,
        bytes: &[u8],
        step: usize,
    ) -> Result<(String, HeaderMap, Bytes), Malformed> {
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
    fn a_body_is_the_same_however_it_is_cut() {
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
    fn what_is_no_chunk_is_refused() {
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
                    Malformed,
                    "{bytes:?}"
                );
            }
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for endless in ["1;", "0\r\na:"] {
            let mut decoder = ResponseDecoder::chunked();
            let mut read = Bytes::from([endless.as_bytes(), &vec![b'a'; 2 * MOST_BYTES]].concat());
            assert_eq!(decoder.decode(&mut read).unwrap_err(), Malformed, "{endless:?}");
        }
    }
}
