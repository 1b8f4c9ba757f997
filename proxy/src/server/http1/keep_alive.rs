//! KeepAlive: the idle time of a connection, for clients that read it.
//!
//! Node's agent, undici and Apache HttpClient close a connection before its server does if a
//! response names the server's idle time. They send `Connection: keep-alive`. Load balancers do
//! not, and some pass a `Keep-Alive` on, though their own idle time is another.

use std::time::Duration;

use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_client::headers::lists;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The header of a listener. `None` for an idle time below a second.
#[derive(Clone, Debug)]
pub(super) struct KeepAlive(Option<HeaderValue>);

// === impl KeepAlive ===

impl KeepAlive {
    pub(super) fn new(idle_timeout: Duration) -> Self {
        let seconds = Some(idle_timeout.as_secs()).filter(|seconds| *seconds > 0);
        Self(seconds.and_then(|seconds| HeaderValue::try_from(format!("timeout={seconds}")).ok()))
    }

    /// The header for the response to `request`.
    pub(super) fn of_request<B>(&self, request: &Request<B>) -> Self {
        let has = |option| lists(request.headers(), CONNECTION, option);
        let is_read = request.version() == Version::HTTP_11 && has("keep-alive") && !has("close");
        Self(is_read.then(|| self.0.clone()).flatten())
    }

    /// Adds the header to a response, unless the connection ends behind it or changes its protocol.
    pub(super) fn add<B>(&mut self, response: &mut Response<B>) {
        let Some(value) = self.0.take() else { return };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS
            && !response.headers().contains_key(CONNECTION)
        {
            // It lists the other header too (RFC 9110, 7.6.1).
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("keep-alive"));
            response.headers_mut().insert(KEEP_ALIVE, value);
        }
    }
}
