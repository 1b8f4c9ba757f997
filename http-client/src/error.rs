//! Errors of a request that got no usable response, and of a response that is cut.

use std::io;
use std::time::Duration;

/// An error of a request body or of a service; only its text is used.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection could not be opened, or accepted no byte: nothing was sent.
    #[error("no connection: {0}")]
    Unreachable(#[source] io::Error),
    /// The request got no stream: nothing was sent.
    #[error(transparent)]
    NoFreeStream(#[from] NoFreeStream),
    /// The server promised not to have processed it, again and again, or its body cannot be sent
    /// again.
    #[error("the server did not process the request: {0}")]
    Unprocessed(#[source] io::Error),
    /// The request was sent, at least in part, and the connection ended before the first byte of a
    /// response.
    #[error("connection closed before the response: {0}")]
    Unanswered(#[source] io::Error),
    /// The request was sent, at least in part, and the response ended within its head, or an HTTP/2
    /// stream was reset.
    #[error("connection failed within the response head: {0}")]
    Failed(#[source] io::Error),
    /// The response is malformed or ambiguous.
    #[error(transparent)]
    InvalidResponse(#[from] InvalidResponse),
    /// The request body failed, or its length differs from its head.
    #[error("request body failed: {0}")]
    RequestBody(#[source] BoxError),
}

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The connection closed or failed before the end of the body.
    #[error("connection failed within the response body: {0}")]
    Cut(#[from] io::Error),
    /// The bytes are not of the coding that the head names.
    #[error("the response body has an invalid coding")]
    InvalidCoding,
    /// An HTTP/2 stream failed.
    #[error("{0}")]
    Http2(#[source] h2::Error),
}

/// Why a request got no HTTP/2 stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoFreeStream {
    /// Too many requests wait for a stream.
    #[error("all HTTP/2 streams to the server are in use, and too many requests wait for one")]
    QueueFull,
    /// It waited too long.
    #[error("all HTTP/2 streams to the server were in use for {after:?}")]
    TimedOut {
        /// How long it waited.
        after: Duration,
    },
    /// A new connection got no SETTINGS, or those that permit no stream.
    #[error("the server permitted no HTTP/2 stream within {after:?}")]
    NotPermitted {
        /// How long the connection waited.
        after: Duration,
    },
}

/// Why a response is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResponse {
    /// Not an HTTP/1.1 head, or a head of more than 64 KiB.
    #[error("the response is not HTTP/1.1")]
    Head,
    /// Content-Length beside Transfer-Encoding, lengths that differ, or a coding other than
    /// `chunked`.
    #[error("the response has ambiguous framing")]
    Framing,
    /// Status 101 without a request to upgrade.
    #[error("the response switches protocols without a request to")]
    Switch,
}
