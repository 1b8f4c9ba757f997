//! Input: what is sent on one connection, and how it is left.

use std::fmt;

use rand::{Rng, RngExt};

/// Bytes as they leave.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) leaving: Leaving,
}

/// What the caller does when it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Reads until the other end closes.
    Waits,
    /// Closes its direction, and reads.
    Finishes,
    /// Closes.
    HangsUp,
    /// Resets.
    Resets,
}

// === impl Input ===

impl Input {
    /// How many requests of HTTP/1 it can be at most. Each names its version; what is refused for
    /// having none is one more.
    pub(crate) fn most_requests(&self) -> usize {
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
        write!(f, "  {:?}", self.leaving)
    }
}

// === impl Leaving ===

impl Leaving {
    pub(crate) fn any(random: &mut impl Rng) -> Self {
        match random.random_range(0..6) {
            0 => Self::HangsUp,
            1 => Self::Resets,
            _ => Self::Finishes,
        }
    }
}
