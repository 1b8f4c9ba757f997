//! HTTP/1.1: one exchange at a time on a connection, driven by the task that sends the request.

mod bound_connection;
mod connection;
mod exchange;
pub(crate) mod pool;
mod response_body;
mod upload;

pub use bound_connection::BoundConnection;
pub use exchange::send_once;
pub use pool::{Pool, PoolOptions};
pub use response_body::{ResponseBody, SwitchedConnection};
