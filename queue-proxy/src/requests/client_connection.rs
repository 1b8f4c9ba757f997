//! ClientConnection: the memory of one connection to the traffic port and of its requests. When the
//! budget is full, an idle connection is closed for others.
//!
//! An activator forwards the requests of many clients. What it forwards counts for the client that
//! it names: a stream of HTTP/2 takes its memory from that client's account, and a connection of
//! HTTP/1.1 moves there with each request. Otherwise one client with many requests could use up the
//! activator's account, and the requests of all others would be refused with its own.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{Either, Full};
use proxy::gateway;
use proxy::gateway::grpc::{Call, CallFailure};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::memory::budget::{BudgetExceeded, MemoryPermit};
use proxy::memory::estimates::{CONNECTION_BYTES, HTTP2_BYTES, request_bytes};
use proxy::memory::open_connections::{ActiveRequest, ConnectionActivity, ConnectionPlace};
use proxy::server::ConnectionGuard;
use proxy::timeouts::request_body::RequestBody;
use proxy::tracked_body::TrackedBody;

use super::error_response::RequestError;
use super::handler::{Handler, HandlerBody, error_response};
use crate::memory::{ClientAccount, ClientMemory};
use crate::readiness::pod_identity::Destination;

/// What a request holds until the end of its response.
type RequestMemory = (ActiveRequest<MemoryPermit>, Option<MemoryPermit>);

/// An open connection.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    memory: Arc<ClientMemory>,
    account: Arc<ClientAccount>,
    place: ConnectionPlace<MemoryPermit>,
}

/// Serves the requests of a connection with the handler of its worker.
pub(crate) struct ConnectionRequests {
    handler: Arc<Handler>,
    memory: Arc<ClientMemory>,
    /// The account of the address that connected.
    account: Arc<ClientAccount>,
    activity: ConnectionActivity<MemoryPermit>,
}

// === impl ClientConnection ===

impl ClientConnection {
    /// Takes the memory of a connection with these `addresses`; `None` if it must be closed.
    pub(crate) fn admit(memory: &Arc<ClientMemory>, addresses: &ConnectionAddresses) -> Option<Self> {
        let account = Arc::new(memory.of_client(addresses.peer_ip()));
        let place = account.admit(CONNECTION_BYTES)?;
        Some(Self { memory: memory.clone(), account, place })
    }

    /// Its requests, for `handler`.
    pub(crate) fn requests(&self, handler: Arc<Handler>) -> ConnectionRequests {
        ConnectionRequests {
            handler,
            memory: self.memory.clone(),
            account: self.account.clone(),
            activity: self.place.activity(),
        }
    }
}

impl ConnectionGuard for ClientConnection {
    type Permit = MemoryPermit;

    fn take_memory(&self, bytes: u64) -> Result<MemoryPermit, Box<Response<Full<Bytes>>>> {
        let taken = self.account.take_upload(bytes);
        taken.map_err(|exceeded| Box::new(RequestError::UploadMemoryFull(exceeded).into_response()))
    }

    fn admits_http2(&self) -> bool {
        self.account.take_connection(HTTP2_BYTES).map(|permit| self.place.keep_http2(permit)).is_some()
    }

    async fn closed(&self) {
        self.place.closed().await;
        self.account.idle_connection_closed();
    }
}

// === impl ConnectionRequests ===

impl ConnectionRequests {
    /// Serves one request. An upgrade takes its memory when it is forwarded.
    pub(crate) fn serve(
        &self,
        request: Request<IncomingBody>,
        addresses: &Arc<ConnectionAddresses>,
    ) -> impl Future<Output = Result<Response<TrackedBody<HandlerBody, RequestMemory>>, Infallible>> + Send + use<>
    {
        let (handler, addresses) = (self.handler.clone(), addresses.clone());
        let destination = handler.identity.destination(request.headers());
        let active = self.activity.begin_request();
        let account = self.client_account(destination, request.headers());
        let memory = self.take_request(&account, request.version());
        let call = Call::of(&request);
        let request = Box::new(request.map(RequestBody::from));
        async move {
            // The connection is about to close; the client sends its request on another one.
            let Some(active) = active else { return pending().await };
            let (mut response, permit) = match memory {
                Ok(permit) => (handler.handle(request, destination, &addresses, &account).await, permit),
                Err(exceeded) => (error_response(exceeded.into()), None),
            };
            if call.is_some_and(|call| CallFailure::respond(&mut response, call)) {
                *response.body_mut() = Either::Right(Full::default());
            }
            Ok(response.map(|body| TrackedBody::new(body, (active, permit))))
        }
    }

    /// The account of the client that an activator names, or of the address that connected.
    fn client_account(&self, destination: Destination, headers: &HeaderMap) -> Arc<ClientAccount> {
        let forwarded = (destination == Destination::Proxied).then(|| gateway::forwarded_client(headers));
        match forwarded.flatten() {
            Some(client) => Arc::new(self.memory.of_client(client)),
            None => self.account.clone(),
        }
    }

    /// Takes a request's memory from the client's `account`: the memory of its stream, or of its
    /// connection.
    fn take_request(
        &self,
        account: &ClientAccount,
        version: Version,
    ) -> Result<Option<MemoryPermit>, BudgetExceeded> {
        if version != Version::HTTP_2 {
            account.take_over(&self.activity, CONNECTION_BYTES)?;
        }
        account.take_request(request_bytes(version, false))
    }
}
