//! TcpProxy: connections to an app that does not use HTTP, such as a database or an app that
//! terminates TLS.
//!
//! ```text
//!  client ────────────────────► listener ─┬─► slot ─► app's start ─► connect ─► relay ◄─► app
//!  activator ─ upgrade ─► admin ─ tunnel ─┘
//! ```
//!
//! A connection holds a slot of the container concurrency until it closes. It counts as one request
//! while bytes flow (see `proxy::tcp`) or it waits. The sidecar does not wait for the client's
//! first bytes, because in many protocols the server sends first. Without headers a connection
//! cannot show that it comes through an activator, so activators open tunnels on the admin port.

use std::future::{Future, pending};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use autoscaler::contract::TUNNEL_PROTOCOL;
use autoscaler::routing::breaker::{Breaker, BreakerPermit};
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use proxy::client_stream::abort::Abort;
use proxy::client_stream::peer_closed::PeerClosed;
use proxy::listener::{AcceptedConnection, ConnectionAddresses};
use proxy::memory::estimates::CONNECTION_BYTES;
use proxy::server::{self, ServerOptions};
use proxy::tcp::{ConnectionOutcome, IdleTimeouts, TcpRelay, client_left, upgraded_connection};
use proxy::workers::Workers;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::probe_filter::ProbeFilter;
use crate::app_connection::PodAddresses;
use crate::memory::ClientMemory;
use crate::readiness::availability::{Availability, START_TIMEOUT};
use crate::requests::error_response::RequestError;
use crate::stats::metrics::TcpMetrics;
use crate::stats::request_counter::{ActiveConnection, RequestCounter};

/// Relays connections to the app. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct TcpProxy(Arc<TcpProxyParts>);

/// Parts of a [`TcpProxy`].
#[derive(Debug)]
pub(crate) struct TcpProxyParts {
    pub(crate) counter: Arc<RequestCounter>,
    pub(crate) breaker: Breaker,
    pub(crate) availability: Availability,
    pub(crate) app: SocketAddr,
    pub(crate) pod: PodAddresses,
    pub(crate) idle_timeouts: IdleTimeouts,
    pub(crate) metrics: TcpMetrics,
    /// Accounts of the clients.
    pub(crate) memory: Arc<ClientMemory>,
    /// Bounds the tunnels; the listener bounds the connections of clients.
    pub(crate) tunnels: Arc<Semaphore>,
    /// Closes idle connections.
    pub(crate) stop: CancellationToken,
}

/// A connection with its slot and its connection to the app.
struct AdmittedConnection {
    app: TcpStream,
    _slot: BreakerPermit,
    /// Counts the connection from its arrival if it had to wait.
    active: Option<ActiveConnection>,
}

/// Why a connection does not reach the app.
#[derive(Debug, thiserror::Error)]
enum AdmissionError {
    #[error(transparent)]
    Rejected(#[from] RequestError),
    #[error("the client closed the connection while it waited")]
    ClientClosed,
}

// === impl TcpProxy ===

impl TcpProxy {
    pub(crate) fn new(parts: TcpProxyParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Opens a tunnel for the client with this address; `proxied` if it is an activator's, which
    /// has counted it. The response switches protocols after the app has accepted the connection.
    pub(crate) async fn open_tunnel<B>(
        &self,
        mut request: Request<B>,
        client: IpAddr,
        proxied: bool,
    ) -> Result<Response<Full<Bytes>>, RequestError> {
        if request.headers().get(UPGRADE).is_none_or(|to| to != TUNNEL_PROTOCOL) {
            return Err(RequestError::NotATunnelRequest);
        }
        let place = self.0.tunnels.clone().try_acquire_owned().map_err(|_| RequestError::TooManyTunnels)?;
        let tunnel = (place, self.0.memory.of_client(client).take_request(CONNECTION_BYTES)?);
        // When the activator closes the connection, hyper drops this future.
        let admitted = match self.0.admit(proxied, pending()).await {
            Ok(admitted) => admitted,
            Err(AdmissionError::Rejected(error)) => return Err(error),
            Err(AdmissionError::ClientClosed) => return Err(RequestError::RequestBodyFailed),
        };
        let client = hyper::upgrade::on(&mut request);
        let proxy = self.clone();
        tokio::spawn(async move {
            let upgraded = client.await.map_err(io::Error::other);
            match upgraded.and_then(upgraded_connection::<TcpStream>) {
                Ok(client) => proxy.0.relay(client, admitted, proxied).await,
                Err(error) => tracing::debug!(%error, "tunnel upgrade failed"),
            }
            drop(tunnel);
        });
        Ok(switching_protocols())
    }

    /// Serves the connections of `listener` on `workers` until the stop. Then waits for open ones,
    /// at most the drain timeout of `options`.
    pub(crate) async fn serve(self, workers: Workers<()>, listener: TcpListener, options: ServerOptions) {
        let stop = self.0.stop.clone();
        let memory = self.0.memory.clone();
        let admit = move |addresses: &ConnectionAddresses| {
            memory.of_client(addresses.peer_ip()).take_connection(CONNECTION_BYTES)
        };
        let handle = move |_: Arc<()>, accepted| self.clone().handle(accepted);
        server::handle_on_workers(&workers, listener, admit, handle, options, stop).await;
    }

    async fn handle(self, accepted: AcceptedConnection) {
        match self.0.admit(false, client_left(&accepted.stream)).await {
            Ok(admitted) => self.0.relay(ProbeFilter::new(accepted.stream), admitted, false).await,
            Err(error) => {
                tracing::debug!(%error, "connection rejected");
                // Without a byte, an orderly end would look like an empty answer of the app.
                accepted.stream.abort();
            }
        }
    }
}

// === impl TcpProxyParts ===

impl TcpProxyParts {
    /// Waits for a slot and for the app, unless `closed` ends first, connects to the app, and
    /// counts a failure.
    async fn admit(
        &self,
        proxied: bool,
        closed: impl Future<Output = ()>,
    ) -> Result<AdmittedConnection, AdmissionError> {
        let admitted = self.wait_and_connect(proxied, closed).await;
        match &admitted {
            Ok(_) => {}
            Err(AdmissionError::ClientClosed) => self.metrics.count(ConnectionOutcome::Cancelled),
            Err(AdmissionError::Rejected(_)) => self.metrics.count(ConnectionOutcome::Refused),
        }
        admitted
    }

    async fn wait_and_connect(
        &self,
        proxied: bool,
        closed: impl Future<Output = ()>,
    ) -> Result<AdmittedConnection, AdmissionError> {
        let (slot, active) = tokio::select! {
            // A client that need not wait may have closed its sending side already.
            biased;
            admitted = self.wait_for_slot(proxied) => admitted?,
            () = closed => return Err(AdmissionError::ClientClosed),
        };
        let app = self.pod.connect(self.app).await.map_err(|_| RequestError::AppUnreachable)?;
        app.set_nodelay(true).map_err(|_| RequestError::AppUnreachable)?;
        Ok(AdmittedConnection { app, _slot: slot, active })
    }

    /// Waits for a slot and for the app's start. The connection counts as active if it had to wait.
    async fn wait_for_slot(
        &self,
        proxied: bool,
    ) -> Result<(BreakerPermit, Option<ActiveConnection>), RequestError> {
        let free = self.breaker.try_acquire();
        if self.availability.has_started()
            && let Some(slot) = free
        {
            return Ok((slot, None));
        }
        let active = self.counter.enter_connection(proxied);
        let slot = match free {
            Some(slot) => slot,
            None => self.breaker.acquire().await?,
        };
        self.availability.wait_for_start(START_TIMEOUT).await?;
        Ok((slot, Some(active)))
    }

    async fn relay(
        &self,
        mut client: impl AsyncRead + AsyncWrite + Abort + PeerClosed + Unpin,
        admitted: AdmittedConnection,
        proxied: bool,
    ) {
        let _open = self.metrics.track_open();
        let AdmittedConnection { mut app, _slot, active } = admitted;
        let relay = TcpRelay {
            idle_timeouts: self.idle_timeouts,
            counted: active,
            count: || self.counter.enter_connection(proxied),
            stop: self.stop.clone(),
        };
        if let Err(error) = relay.run(&mut client, &mut app).await {
            tracing::debug!(%error, "TCP connection failed");
        }
        self.metrics.count(ConnectionOutcome::Served);
    }
}

fn switching_protocols() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(TUNNEL_PROTOCOL));
    response
}
