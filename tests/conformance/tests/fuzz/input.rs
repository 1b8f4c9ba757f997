//! An input: the bytes of one connection, and how the client ends it.

use std::fmt;

use rand::{Rng, RngExt};

/// Bytes in segments, one write each.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) end: ConnectionEnd,
}

/// Action of the client after all bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// Reads until the proxy closes.
    Reads,
    /// Closes the sending side, then reads.
    ClosesWrite,
    Closes,
    Resets,
}

// === impl Input ===

impl Input {
    /// Upper bound of the HTTP/1 requests in the input: each of them contains a version. A request
    /// without a version gets one more response, a rejection.
    pub(crate) fn max_requests(&self) -> usize {
        let bytes = self.segments.concat();
        bytes.windows(5).filter(|part| part == b"HTTP/").count()
    }

    pub(crate) fn is_http2(&self) -> bool {
        self.segments.concat().starts_with(b"PRI ")
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            writeln!(f, "  \"{}\"", segment.escape_ascii())?;
        }
        write!(f, "  {:?}", self.end)
    }
}

// === impl ConnectionEnd ===

impl ConnectionEnd {
    pub(crate) fn any(random: &mut impl Rng) -> Self {
        match random.random_range(0..6) {
            0 => Self::Closes,
            1 => Self::Resets,
            _ => Self::ClosesWrite,
        }
    }
}
