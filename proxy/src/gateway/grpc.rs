//! gRPC calls: responses of the proxy itself, and deadlines.
//!
//! A gRPC client reads the status of a call from trailers, or from the head of a response without a
//! body. From the HTTP status of any other response it guesses, and retries what may have run.

mod call_failure;
mod call_stream;
mod call_timeout;
mod web_messages;

pub(crate) use call_failure::GRPC_STATUS;
pub use call_failure::{Call, CallFailure};
pub use call_stream::CallStream;
pub use call_timeout::{DeadlineExceeded, call_deadline, reduce_timeout};
