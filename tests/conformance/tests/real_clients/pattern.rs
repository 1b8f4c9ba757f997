//! Bodies of any length with a pattern that shows the place of any damage. They are generated and
//! verified in a stream.

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use crate::app::Body;

/// A prime length, so it does not divide the length of any buffer.
const PIECE: usize = 16_411;

/// A body of `all` bytes, generated on demand.
pub(crate) fn of(all: u64) -> Body {
    let pieces = (0..all).step_by(PIECE).map(move |start| Ok(Frame::data(piece(start, all))));
    StreamBody::new(stream::iter(pieces)).boxed_unsync()
}

/// The bytes at `start` of a body of `all` bytes, up to the end of the pattern.
pub(crate) fn piece(start: u64, all: u64) -> Bytes {
    let begin = (start % PIECE as u64) as usize;
    let length = (PIECE - begin).min(usize::try_from(all - start).unwrap_or(usize::MAX));
    Bytes::from_static(&PATTERN[begin..begin + length])
}

/// Whether the pattern has these bytes at this position.
pub(crate) fn is_part(at: u64, mut bytes: &[u8]) -> bool {
    let mut start = (at % PIECE as u64) as usize;
    while !bytes.is_empty() {
        let (now, later) = bytes.split_at(bytes.len().min(PIECE - start));
        if now != &PATTERN[start..start + now.len()] {
            return false;
        }
        (bytes, start) = (later, 0);
    }
    true
}

static PATTERN: [u8; PIECE] = {
    let mut pattern = [0; PIECE];
    let mut at = 0;
    while at < PIECE {
        pattern[at] = (at % 251) as u8;
        at += 1;
    }
    pattern
};
