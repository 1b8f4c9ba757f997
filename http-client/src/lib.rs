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

mod error;
pub mod headers;
mod http1;
mod http2;
mod read_ahead;
pub mod read_buffer;
mod response;
#[cfg(test)]
mod tests;

pub use error::{BoxError, Error, InvalidResponse};
pub use http1::{Pool, PoolOptions, RequestBody, send_once};
pub use http2::Http2Connection;
pub use read_ahead::ReadAhead;
pub use response::{BodyError, ResponseBody, SwitchedConnection};
