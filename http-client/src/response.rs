//! Responses: head, framing and body.

mod body;
mod decoder;
mod framing;
mod head;

pub use body::{BodyError, ResponseBody, SwitchedConnection};
pub(crate) use body::{ResponseStream, StreamSource};
pub(crate) use framing::check_framing;
pub(crate) use head::ResponseHead;
