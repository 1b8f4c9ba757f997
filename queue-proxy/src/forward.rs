//! Turns a caller's request into one to the app, and the app's response into one to the caller.
//!
//! The app sees the request as if it had come straight to it: same method, path, Host and body; only headers of the
//! connection and our own are gone, and X-Forwarded-* say who asked. Bodies stream both ways, nothing is collected.

use autoscaler::contract;
use http::{HeaderName, Request, Response};
use http_client::ResponseBody;
use proxy::gateway;
use proxy::listener::ConnectionAddresses;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;
use crate::upstream::Upstream;

/// Headers by which our own parts speak to each other.
const OURS: [HeaderName; 3] = [
    HeaderName::from_static(contract::PROXIED_HEADER),
    HeaderName::from_static(contract::PROBE_HEADER),
    HeaderName::from_static(contract::WORKLOAD_HEADER),
];

/// Sends `request`, which came on `ends` and asks to upgrade or not, to the app. The response's head is the caller's
/// already; its body is still to come.
pub(crate) async fn forward(
    upstream: &Upstream,
    mut request: Box<Request<CallerBody>>,
    ends: &ConnectionAddresses,
    asked_to_upgrade: bool,
) -> Result<Response<ResponseBody>, Refusal> {
    gateway::prepare_request(&mut request, ends);
    // A pass over the names costs less than a lookup for each of ours, and callers send none.
    if request.headers().keys().any(|name| OURS.contains(name)) {
        for ours in OURS {
            request.headers_mut().remove(ours);
        }
    }
    let mut response = upstream.send(request).await?;
    gateway::prepare_response(&mut response, asked_to_upgrade)?;
    Ok(response)
}
