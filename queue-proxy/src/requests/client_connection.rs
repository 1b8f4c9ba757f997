//! ClientConnection: the memory of one connection to the traffic port and of its requests. When the
//! budget is full, an idle connection is closed for others.

use std::future::pending;
use std::sync::Arc;

use http::{Request, Response};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::memory::budget::MemoryPermit;
use proxy::memory::estimates::{CONNECTION_BYTES, HTTP2_BYTES, request_bytes};
use proxy::memory::open_connections::{ActiveRequest, ConnectionActivity, ConnectionPlace};
use proxy::server::ConnectionGuard;
use proxy::timeouts::request_body::RequestBody;
use proxy::tracked_body::TrackedBody;

use super::handler::{Handler, HandlerBody, error_response};
use crate::memory::{ClientAccount, ClientMemory};

/// What a request holds until the end of its response.
type RequestMemory = (ActiveRequest<MemoryPermit>, Option<MemoryPermit>);

/// An open connection.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    account: Arc<ClientAccount>,
    place: ConnectionPlace<MemoryPermit>,
}

/// Serves the requests of a connection with the handler of its worker.
pub(crate) struct ConnectionRequests {
    handler: Arc<Handler>,
    account: Arc<ClientAccount>,
    activity: ConnectionActivity<MemoryPermit>,
}

// === impl ClientConnection ===

impl ClientConnection {
    /// Takes the memory of a connection with these `addresses`; `None` if it must be closed.
    pub(crate) fn admit(memory: &ClientMemory, addresses: &ConnectionAddresses) -> Option<Self> {
        let account = Arc::new(memory.of_client(addresses.peer_ip()));
        let place = account.admit(CONNECTION_BYTES)?;
        Some(Self { account, place })
    }

    /// Its requests, for `handler`.
    pub(crate) fn requests(&self, handler: Arc<Handler>) -> ConnectionRequests {
        ConnectionRequests { handler, account: self.account.clone(), activity: self.place.activity() }
    }
}

impl ConnectionGuard for ClientConnection {
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
    ) -> impl Future<Output = Response<TrackedBody<HandlerBody, RequestMemory>>> + Send + use<> {
        let (handler, account, addresses) = (self.handler.clone(), self.account.clone(), addresses.clone());
        let active = self.activity.begin_request();
        let memory = account.take_request(request_bytes(request.version(), false));
        let request = Box::new(request.map(RequestBody::from));
        async move {
            // The connection is about to close; the client sends its request on another one.
            let Some(active) = active else { return pending().await };
            let (response, permit) = match memory {
                Ok(permit) => (handler.handle(request, &addresses, &account).await, permit),
                Err(exceeded) => (error_response(exceeded.into()), None),
            };
            response.map(|body| TrackedBody::new(body, (active, permit)))
        }
    }
}
