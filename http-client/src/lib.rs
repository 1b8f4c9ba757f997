//! The HTTP client of both proxies. Over HTTP/1.1 the task that sends the request drives the
//! connection, one exchange at a time; over HTTP/2 requests share a few connections.
//!
//! ```text
//!  request ─► Pool ─► Upload ───────► Connection ─► ResponseHead ─► ResponseBody ─► the response
//!              ▲     (head, body)                        │  (ResponseDecoder)
//!              └───────── the connection, after the last byte of the body
//! ```
//!
//! queue-proxy sends with it to the app, activator to pods, and zero-scaler and activator send
//! single probes (`send_once`). A request must be prepared for the next hop before
//! (`proxy::gateway`).
//!
//! hyper's HTTP/1.1 client has a task, a channel and two buffers for each connection. Here an idle
//! connection is a socket and the capacity of one request head, and reads pass through one buffer
//! per thread. With a thousand connections that buffer memory is most of a proxy's memory. HTTP/2
//! is h2, the crate below hyper: its client would add a channel and a task to each request, and has
//! no way to end an upload that the server stopped reading.
//!
//! A response that two peers could read differently is an error ([`InvalidResponse`]), never passed
//! on.

mod error;
pub mod headers;
mod http1;
mod http2;
pub mod interim;
mod late_upload;
mod open_stream;
mod read_ahead;
pub mod read_buffer;
mod request_body;
mod response;
mod rewindable_body;
#[cfg(test)]
mod tests;

pub use error::{BodyError, BoxError, Error, InvalidResponse, NoFreeStream};
pub use http1::{BoundConnection, Pool, PoolOptions, ResponseBody, SwitchedConnection, send_once};
pub use http2::{Http2Options, Http2Pool};
pub use read_ahead::ReadAhead;
pub use request_body::RequestBody;
pub use rewindable_body::RewindableBody;
