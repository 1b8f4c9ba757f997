//! Responses: head, framing and the decoding of bodies. The body itself is in `http1`, because its
//! connection returns to the pool there.

mod decoder;
mod framing;
mod head;
mod http2_body;

pub(crate) use decoder::ResponseDecoder;
pub(crate) use framing::check_length;
pub(crate) use head::ResponseHead;
pub(crate) use http2_body::Http2Body;
