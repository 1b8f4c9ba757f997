//! Forwards one request to the app and returns the head of its response.
//!
//! The app receives the client's method, path, Host and body. Hop-by-hop headers and Rouse's own
//! headers are removed, and X-Forwarded-* name the client. Bodies stream in both directions and are
//! never buffered as a whole.

use autoscaler::contract;
use http::{HeaderName, Request, Response};
use http_client::ResponseBody;
use proxy::gateway;
use proxy::listener::ConnectionAddresses;

use super::app_connections::AppConnections;
use super::error_response::RequestError;
use super::request_body::RequestBody;

/// Headers between Rouse's components.
const INTERNAL_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static(contract::PROXIED_HEADER),
    HeaderName::from_static(contract::PROBE_HEADER),
    HeaderName::from_static(contract::WORKLOAD_HEADER),
];

/// Sends `request`, received on the connection `addresses`, to the app.
pub(crate) async fn forward(
    app: &AppConnections,
    mut request: Box<Request<RequestBody>>,
    addresses: &ConnectionAddresses,
    is_upgrade: bool,
) -> Result<Response<ResponseBody>, RequestError> {
    gateway::prepare_request(&mut request, addresses);
    // One pass over the names costs less than three lookups, and clients send none of these
    // headers.
    if request.headers().keys().any(|name| INTERNAL_HEADERS.contains(name)) {
        for internal in INTERNAL_HEADERS {
            request.headers_mut().remove(internal);
        }
    }
    let mut response = app.send(request).await?;
    gateway::prepare_response(&mut response, is_upgrade)?;
    Ok(response)
}
