//! Turns a caller's request into one to the app, and the app's response into one to the caller.
//!
//! The app sees the request as if it had come straight to it: same method, path, Host and body; only headers of the
//! connection and our own are gone, and X-Forwarded-* say who asked. Bodies stream both ways, nothing is collected.

use autoscaler::contract;
use chassis::gateway;
use chassis::server::Connection;
use http::{HeaderName, Request, Response};
use hyper::body::Incoming;

use crate::caller_body::CallerBody;
use crate::error_response::Refusal;
use crate::upstream::{Lease, Upstream};

/// Headers by which our own parts speak to each other.
const OURS: [HeaderName; 3] = [
    HeaderName::from_static(contract::PROXIED_HEADER),
    HeaderName::from_static(contract::PROBE_HEADER),
    HeaderName::from_static(contract::WORKLOAD_HEADER),
];

/// Sends `request`, which came on `ends`, to the app. The response's head is the caller's already; its body is still to come,
/// over a connection that is kept until then.
pub(crate) async fn forward(
    upstream: &Upstream,
    mut request: Box<Request<CallerBody>>,
    ends: &Connection,
) -> Result<(Response<Incoming>, Option<Lease>), Refusal> {
    let asked_to_upgrade = gateway::asks_to_upgrade(&request);
    gateway::to_next_hop(&mut request, ends);
    for ours in OURS {
        request.headers_mut().remove(ours);
    }
    let (mut response, lease) = upstream.send(request).await?;
    gateway::to_caller(&mut response, asked_to_upgrade)?;
    Ok((response, lease))
}
