//! Why there is no response.

use std::io;

/// What errors are when nobody looks into them.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no connection, or it took nothing: nothing was sent.
    #[error("no connection: {0}")]
    Unreachable(#[source] io::Error),
    /// The request was sent, perhaps in part, and the connection ended before anything of a response came.
    #[error("the connection ended before the response: {0}")]
    Unanswered(#[source] io::Error),
    /// The request was sent, perhaps in part, and its response broke off in its head, or this request alone was given up.
    #[error("the connection failed before the response: {0}")]
    Failed(#[source] io::Error),
    /// What came is no response, or none that everybody reads alike.
    #[error(transparent)]
    InvalidResponse(#[from] InvalidResponse),
    /// The request's own body failed.
    #[error("the request's body failed: {0}")]
    RequestBody(#[source] BoxError),
}

/// Why a response goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// No head of HTTP/1.1, or one larger than any may be.
    #[error("the response is none of HTTP/1.1")]
    Head,
    /// A length and a coding, lengths that differ, or a coding other than `chunked`.
    #[error("the response does not say clearly where it ends")]
    Framing,
    /// A 101 to who asked for none.
    #[error("the response switches protocols unasked")]
    Switch,
}
