//! Upstream: the client's side of a proxy. Over HTTP/1.1 one exchange at a time has a connection, driven by the task of
//! whoever asks; over HTTP/2 all share one.
//!
//! ```text
//!  request ─► pool ─► upload ───────► link ─► response_head ─► response_body ─► the caller's response
//!              ▲     (head, body)                  │  (by its response_decoder)
//!              └───────── the link, once the body has ended
//! ```
//!
//! Both proxies send with it what they let through. A library's client has a task for each connection of HTTP/1.1 and a
//! channel to it, and two buffers that live as long as the connection. Here a connection at rest is a socket and the room of
//! a head; what is read passes through one buffer of the thread's. With a thousand connections that is the greater part of
//! a proxy's memory, and with few of them of its own time. HTTP/2 is the library's.
//!
//! What comes here was made ready for the next hop (`gateway`). An answer that two peers could read differently is none.

mod http2;
mod link;
mod pool;
mod response_body;
mod response_decoder;
mod response_head;
#[cfg(test)]
mod tests;
mod upload;

use std::io;

use bytes::Bytes;
use http_body::Body;

use crate::gateway::BadResponse;

pub use http2::SharedConnection;
pub use pool::{Options, Pool, exchange};
pub use response_body::{BodyError, ResponseBody, Switched};

/// The body of a request over HTTP/1.1.
pub trait RequestBody: Body<Data = Bytes, Error: Into<Cause>> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<Cause>> + Send + Unpin + 'static> RequestBody for B {}

/// What errors are when nobody looks into them.
type Cause = Box<dyn std::error::Error + Send + Sync>;

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
    BadResponse(#[from] BadResponse),
    /// The request's own body failed.
    #[error("the request's body failed: {0}")]
    Caller(#[source] Cause),
}
