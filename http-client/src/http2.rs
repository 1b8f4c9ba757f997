//! HTTP/2 to one server, over as few connections as its streams need.
//!
//! ```text
//!  request ─► Http2Pool ─┬─ a free stream ─────────────► Connection ─► ResponseBody
//!                        ├─ none ─► ConnectAttempt ────► Connection    (holds the OpenStream)
//!                        └─ bound reached ─► wait, with a bound and a timeout
//! ```

mod connect_attempt;
mod connection;
mod pool;

pub use pool::{Http2Options, Http2Pool};
