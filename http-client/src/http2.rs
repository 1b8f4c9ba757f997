//! HTTP/2 to one server, over as few connections as its streams need.
//!
//! ```text
//!  request ─► Http2Pool ─┬─ a free stream ─────────────► Connection ─► Exchange ─► Http2Body
//!                        ├─ none ─► ConnectAttempt ────► Connection    (Upload)    (OpenStream)
//!                        └─ bound reached ─► wait, with a bound and a timeout
//! ```
//!
//! The task of the request sends its body; the task of the connection only moves frames.

mod connect_attempt;
mod connection;
mod exchange;
mod pool;
mod upload;

pub use pool::{Http2Options, Http2Pool};
