//! TcpProxy: connections to an app that does not speak HTTP: a database, mostly, or an app that ends TLS itself.
//!
//! ```text
//!  caller ────────────────────► listener ─┬─► a slot ─► the app's start ─► connect ─► relay ◄─► app
//!  activator ─ upgrade ─► admin ─ tunnel ─┘
//! ```
//!
//! A connection holds a slot of the container concurrency from its begin to its end, and counts as one request while bytes
//! flow (`proxy::tcp`) or while it waits. Nothing waits for a caller's first bytes, for with many protocols the app speaks
//! first. No header can say here that a connection comes through an activator, so activators have a way of their own in.

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;

use autoscaler::breaker::{Breaker, Permit};
use autoscaler::contract::{PROXIED_HEADER, TUNNEL_PROTOCOL};
use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use proxy::listener::AcceptedConnection;
use proxy::server::{self, ServerOptions};
use proxy::tcp::ConnectionOutcome;
use proxy::tcp::peer_closed;
use proxy::tcp::{IdleTimeouts, TcpRelay};
use proxy::workers::Workers;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::availability::{Availability, PATIENCE};
use crate::error_response::Refusal;
use crate::metrics::TcpMetrics;
use crate::request_counter::{Flowing, RequestCounter};
use crate::screened::screened;

/// Carries connections to the app. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct TcpProxy(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) counter: Arc<RequestCounter>,
    pub(crate) breaker: Breaker,
    pub(crate) availability: Availability,
    pub(crate) app: SocketAddr,
    pub(crate) idle_timeouts: IdleTimeouts,
    pub(crate) metrics: TcpMetrics,
    /// Places of tunnels; connections of callers are bounded where they are accepted.
    pub(crate) tunnels: Arc<Semaphore>,
    /// Ends what rests.
    pub(crate) stop: CancellationToken,
}

/// A connection that has its slot, and the app's end of it.
struct Admitted {
    app: TcpStream,
    _slot: Permit,
    /// What it counts as, if it had to wait.
    counted: Option<Flowing>,
}

/// Why a connection does not get to the app.
#[derive(Debug, thiserror::Error)]
enum NotAdmitted {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the caller went away while it waited")]
    HungUp,
}

// === impl TcpProxy ===

impl TcpProxy {
    pub(crate) fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }

    /// A connection of an activator: the answer switches to it once the app has accepted.
    pub(crate) async fn tunnel(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        if request.headers().get(UPGRADE).is_none_or(|to| to != TUNNEL_PROTOCOL) {
            return Err(Refusal::NoTunnel);
        }
        let place = self.0.tunnels.clone().try_acquire_owned().map_err(|_| Refusal::TooManyTunnels)?;
        let proxied = request.headers().contains_key(PROXIED_HEADER);
        // An activator that goes away drops this future.
        let admitted = match self.0.admit(proxied, pending()).await {
            Ok(admitted) => admitted,
            Err(NotAdmitted::Refused(refusal)) => return Err(refusal),
            Err(NotAdmitted::HungUp) => return Err(Refusal::CallerFailed),
        };
        let caller = hyper::upgrade::on(&mut request);
        let proxy = self.clone();
        tokio::spawn(async move {
            match caller.await {
                Ok(caller) => proxy.0.carry(TokioIo::new(caller), admitted, proxied).await,
                Err(error) => tracing::debug!(%error, "tunnel not opened"),
            }
            drop(place);
        });
        Ok(switching())
    }

    /// Has `workers` serve what comes to `listener` until the stop; then waits for what still runs, at most the options' time.
    pub(crate) async fn serve(self, workers: Workers<()>, listener: TcpListener, options: ServerOptions) {
        let stop = self.0.stop.clone();
        let carry = move |_: Arc<()>, accepted| self.clone().direct(accepted);
        server::handle_on_workers(&workers, listener, carry, options, stop).await;
    }

    async fn direct(self, accepted: AcceptedConnection) {
        match self.0.admit(false, peer_closed(&accepted.stream)).await {
            Ok(admitted) => self.0.carry(screened(accepted.stream), admitted, false).await,
            Err(error) => tracing::debug!(%error, "connection not carried"),
        }
    }
}

// === impl Shared ===

impl Shared {
    /// Waits for a slot and for the app, unless `gone` ends first, and connects.
    async fn admit(&self, proxied: bool, gone: impl Future<Output = ()>) -> Result<Admitted, NotAdmitted> {
        let admitted = self.admit_uncounted(proxied, gone).await;
        match &admitted {
            Ok(_) => {}
            Err(NotAdmitted::HungUp) => self.metrics.ended(ConnectionOutcome::Cancelled),
            Err(NotAdmitted::Refused(_)) => self.metrics.ended(ConnectionOutcome::Refused),
        }
        admitted
    }

    async fn admit_uncounted(
        &self,
        proxied: bool,
        gone: impl Future<Output = ()>,
    ) -> Result<Admitted, NotAdmitted> {
        let (slot, counted) = tokio::select! {
            // Who need not wait may have ended its side already, and listen.
            biased;
            admitted = self.wait(proxied) => admitted?,
            () = gone => return Err(NotAdmitted::HungUp),
        };
        let app = TcpStream::connect(self.app).await.map_err(|_| Refusal::AppUnreachable)?;
        app.set_nodelay(true).map_err(|_| Refusal::AppUnreachable)?;
        Ok(Admitted { app, _slot: slot, counted })
    }

    /// A slot of the app that has started, and what the connection counts as if that took time.
    async fn wait(&self, proxied: bool) -> Result<(Permit, Option<Flowing>), Refusal> {
        let free = self.breaker.try_acquire();
        if self.availability.has_started()
            && let Some(slot) = free
        {
            return Ok((slot, None));
        }
        let counted = self.counter.flow(proxied);
        let slot = match free {
            Some(slot) => slot,
            None => self.breaker.acquire().await?,
        };
        self.availability.app_within(PATIENCE).await?;
        Ok((slot, Some(counted)))
    }

    async fn carry(
        &self,
        mut caller: impl AsyncRead + AsyncWrite + Unpin,
        admitted: Admitted,
        proxied: bool,
    ) {
        let _open = self.metrics.open();
        let Admitted { mut app, _slot, counted } = admitted;
        let relay = TcpRelay {
            idle_timeouts: self.idle_timeouts,
            counted,
            count: || self.counter.flow(proxied),
            stop: self.stop.clone(),
        };
        if let Err(error) = relay.run(&mut caller, &mut app).await {
            tracing::debug!(%error, "connection ended");
        }
        self.metrics.ended(ConnectionOutcome::Served);
    }
}

fn switching() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(TUNNEL_PROTOCOL));
    response
}
