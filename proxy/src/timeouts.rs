//! Timeouts of requests, for both proxies.
//!
//! [`request_timer`] measures a request, [`request_body`] and [`response_body`] report the bytes in
//! either direction to it, and `timeout_list` wakes the requests that may be late.

mod grpc_status;
pub mod request_body;
pub mod request_timer;
pub mod response_body;
mod timeout_list;
