//! Responses: head, framing and body.

mod body;
mod decoder;
mod framing;
mod head;
mod http2_body;

pub use body::{ResponseBody, SwitchedConnection};
pub(crate) use body::{ResponseStream, StreamSource};
pub(crate) use framing::check_length;
pub(crate) use head::ResponseHead;
pub(crate) use http2_body::Http2Body;
