//! HTTP/1.1: one exchange at a time on a connection, driven by the task that sends the request.

mod connection;
mod exchange;
pub(crate) mod pool;
mod upload;

pub(crate) use connection::Connection;
pub use exchange::send_once;
pub use pool::{Pool, PoolOptions};
