//! RequestBody: a request body that both clients send.

use bytes::Bytes;
use http_body::Body;

use crate::error::BoxError;

/// A request body that [`Pool::send`](crate::Pool::send) and
/// [`Http2Pool::send`](crate::Http2Pool::send) accept.
pub trait RequestBody: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static {}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> RequestBody for B {}
