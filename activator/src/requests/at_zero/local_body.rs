//! LocalBody: the body of a response that this process makes.

use std::convert::Infallible;
use std::future::Ready;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::combinators::WithTrailers;
use http_body_util::{Either, Full};

/// A body made by this process, seldom with trailers.
pub type LocalBody = Either<Full<Bytes>, Box<WithTrailers<Full<Bytes>, Ready<Trailers>>>>;

/// Trailers, which are always there.
pub type Trailers = Option<Result<HeaderMap, Infallible>>;
