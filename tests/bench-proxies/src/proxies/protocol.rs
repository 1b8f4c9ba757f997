//! The version of HTTP on both sides of a proxy.

/// Both are without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// With prior knowledge.
    Http2,
}
