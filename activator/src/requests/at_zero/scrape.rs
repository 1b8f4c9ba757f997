//! The response to a scrape of a workload at zero: no samples.
//!
//! After a failure the target would be down, and its alerts fire whenever the workload sleeps.
//! Series without a sample end, as those of a pod that is gone. An empty body is valid in the text
//! format, and Prometheus 3 rejects one without a content type.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body_util::{Either, Full};

use super::local_body::{LocalBody, NO_STORE};

const TEXT_FORMAT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4");

/// A successful response without a sample.
pub(super) fn without_samples() -> Response<LocalBody> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
    response.headers_mut().insert(CONTENT_TYPE, TEXT_FORMAT);
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}
