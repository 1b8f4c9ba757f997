//! Forwards one request to the app and returns the head of its response.
//!
//! The app receives the client's method, path, Host and body. Hop-by-hop headers and Rouse's own
//! headers are removed, and X-Forwarded-* name the client. Bodies stream in both directions and are
//! never buffered as a whole.

use autoscaler::contract;
use http::{Request, Response, StatusCode};
use http_client::ResponseBody;
use proxy::gateway::{self, Sender};
use proxy::listener::ConnectionAddresses;
use proxy::timeouts::request_body::RequestBody;

use super::app_connections::AppConnections;
use super::error_response::RequestError;

/// Sends `request`, received from `sender` on the connection `addresses`, to the app.
pub(crate) async fn forward(
    app: &AppConnections,
    mut request: Box<Request<RequestBody>>,
    addresses: &ConnectionAddresses,
    sender: Sender,
    is_upgrade: bool,
) -> Result<Response<ResponseBody>, RequestError> {
    gateway::prepare_request(&mut request, addresses, sender);
    gateway::remove_headers(request.headers_mut(), &contract::INTERNAL_HEADERS);
    let mut response = app.send(request, &addresses.bound).await?;
    gateway::prepare_response(&mut response, is_upgrade)?;
    if response.status() == StatusCode::MISDIRECTED_REQUEST {
        // Of the app's own 421 an activator must not conclude that this is another pod.
        response.headers_mut().remove(contract::MISDIRECTED_HEADER);
    }
    Ok(response)
}
