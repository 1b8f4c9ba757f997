//! LocalBody: the body of a response that this process makes, and what keeps it out of caches.

use std::convert::Infallible;
use std::future::Ready;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body_util::combinators::WithTrailers;
use http_body_util::{Either, Full};

/// `Cache-Control` of such a response at zero: the next one for the same URL may be the app's.
pub(super) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A body made by this process, seldom with trailers.
pub type LocalBody = Either<Full<Bytes>, Box<WithTrailers<Full<Bytes>, Ready<Trailers>>>>;

/// Trailers, which are always there.
pub type Trailers = Option<Result<HeaderMap, Infallible>>;
