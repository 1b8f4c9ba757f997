//! RequestHandler: what a listener's owner does with each request.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_client::BoxError;

use crate::incoming_body::IncomingBody;
use crate::listener::ConnectionAddresses;

/// Handles the requests of a listener. Implemented for every function of a request and its
/// connection's addresses.
pub trait RequestHandler: Clone + Send + 'static {
    /// The response's body.
    type Body: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static;
    /// The future of the response.
    type Response: Future<Output = Result<Response<Self::Body>, Infallible>> + Send + 'static;

    /// Handles `request`.
    fn handle(&self, request: Request<IncomingBody>, addresses: &Arc<ConnectionAddresses>) -> Self::Response;
}

// === impl RequestHandler ===

impl<S, F, B> RequestHandler for S
where
    S: Fn(Request<IncomingBody>, &Arc<ConnectionAddresses>) -> F + Clone + Send + 'static,
    F: Future<Output = Result<Response<B>, Infallible>> + Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Body = B;
    type Response = F;

    fn handle(&self, request: Request<IncomingBody>, addresses: &Arc<ConnectionAddresses>) -> F {
        self(request, addresses)
    }
}
