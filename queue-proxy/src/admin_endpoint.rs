//! The admin port: `/ready` and `/app-ready` for the kubelet's readiness probes of the sidecar and
//! of the app, `/start-drain` and `/wait-for-drain` for the preStop hooks of both, and the tunnels
//! of activators to an app that does not use HTTP.
//!
//! `/ready` succeeds once the app has started and while no drain runs. `/app-ready` also runs the
//! app's own readiness probe, twice a second at most. The kubelet's probe of the app is redirected
//! to it, so that a first probe during the app's start waits for the start instead of failing.
//!
//! Every pod of the cluster reaches this port, and no credential distinguishes the kubelet. So
//! `/start-drain`, which makes the pod unready, accepts only `queue-proxy start-drain` in the pod
//! itself, and everything else only reads or waits.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{
    PROBE_HEADER, PROBE_QUEUE_PROXY, START_DRAIN_PATH, TUNNEL_PATH, WAIT_FOR_DRAIN_PATH,
};
use bytes::Bytes;
use component_base::admin::text_response;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use proxy::gateway;
use tokio::time::{sleep, timeout};

use crate::readiness::availability::{Availability, Unavailable};
use crate::readiness::drain::Drain;
use crate::readiness::drain_waits::DrainWaits;
use crate::readiness::pod_identity::{Destination, PodIdentity};
use crate::requests::error_response::RequestError;
use crate::tcp::tcp_proxy::TcpProxy;

/// Longest wait of `/ready` for the app. A failure would cost a whole probe period. It must be
/// shorter than the probe's `timeoutSeconds`, which is 10.
const READY_TIMEOUT: Duration = Duration::from_secs(9);

/// Longest wait of `/wait-for-drain` for a drain to begin. The kubelet runs the hooks of the app
/// and of the sidecar at the same time, and the sidecar's takes longer, because it starts a
/// process. The app's hook also runs when only the app restarts, or when the sidecar's hook has
/// failed: then no drain begins, and this delays the app's stop.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Further wait while requests are in flight, which would be cut. On a node without idle CPU the
/// sidecar's hook took 11 s. An app that hangs in its requests is restarted later by as much.
const BEGIN_TIMEOUT_OF_REQUESTS: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct AdminEndpoint {
    pub(crate) availability: Availability,
    pub(crate) drain: Arc<Drain>,
    pub(crate) drain_waits: DrainWaits,
    pub(crate) identity: PodIdentity,
    /// `None` if the app uses HTTP.
    pub(crate) tcp: Option<TcpProxy>,
}

// === impl AdminEndpoint ===

impl AdminEndpoint {
    /// Handles a request from `peer`.
    pub(crate) async fn handle<B>(&self, request: Request<B>, peer: IpAddr) -> Response<Full<Bytes>> {
        let destination = self.identity.destination(request.headers());
        if destination == Destination::OtherPod {
            return RequestError::OtherPod.into_response();
        }
        if let Some(component) = request.headers().get(PROBE_HEADER) {
            return match self.availability.handle_probe(component).await {
                Ok(()) => text_response(StatusCode::OK, PROBE_QUEUE_PROXY),
                Err(unavailable) => RequestError::from(unavailable).into_response(),
            };
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, TUNNEL_PATH) => {
                self.open_tunnel(request, peer, destination == Destination::Proxied).await
            }
            (&Method::GET | &Method::HEAD, "/ready") => {
                readiness_response(self.availability.wait_until_available(READY_TIMEOUT).await)
            }
            (&Method::GET | &Method::HEAD, "/app-ready") => {
                readiness_response(self.availability.probe_app(READY_TIMEOUT).await)
            }
            (&Method::POST, START_DRAIN_PATH) => self.start_drain(request.headers(), peer),
            (&Method::GET, WAIT_FOR_DRAIN_PATH) => self.wait_for_drain(peer).await,
            (&Method::GET | &Method::HEAD, "/live") => text_response(StatusCode::OK, "ok\n"),
            _ => text_response(
                StatusCode::NOT_FOUND,
                "not found; use GET /ready, /app-ready, /wait-for-drain or /live, or POST /start-drain\n",
            ),
        }
    }

    async fn open_tunnel<B>(
        &self,
        request: Request<B>,
        client: IpAddr,
        proxied: bool,
    ) -> Response<Full<Bytes>> {
        // An activator names its client, whose memory the tunnel takes.
        let forwarded = proxied.then(|| gateway::forwarded_client(request.headers())).flatten();
        let client = forwarded.unwrap_or(client);
        let opened = match &self.tcp {
            Some(tcp) => tcp.open_tunnel(request, client, proxied).await,
            None => Err(RequestError::AppUsesHttp),
        };
        opened.unwrap_or_else(RequestError::into_response)
    }

    /// Loopback is not enough: the app may send requests to URLs of its clients, by any method.
    fn start_drain(&self, headers: &HeaderMap, peer: IpAddr) -> Response<Full<Bytes>> {
        if !peer.is_loopback() || !self.identity.may_start_drain(headers) {
            tracing::warn!(%peer, "drain request refused");
            return text_response(
                StatusCode::FORBIDDEN,
                "only `queue-proxy start-drain` in the pod may start its drain\n",
            );
        }
        self.drain.begin();
        text_response(StatusCode::OK, "drain began\n")
    }

    /// Waits until the drain has ended, and for a short time for one to begin; never begins one.
    ///
    /// Without a drain the response is not an error: for an error, the kubelet would emit a warning
    /// event at each restart of the app alone, and it stops the app in either case.
    async fn wait_for_drain(&self, peer: IpAddr) -> Response<Full<Bytes>> {
        let Some(_place) = self.drain_waits.enter(peer) else {
            return text_response(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait for a drain\n");
        };
        if !self.drain_begins().await {
            return text_response(StatusCode::OK, "no drain has begun\n");
        }
        self.drain.done().await;
        text_response(StatusCode::OK, "drained\n")
    }

    async fn drain_begins(&self) -> bool {
        let not_begun = async {
            sleep(BEGIN_TIMEOUT).await;
            // An error means that requests are still in flight.
            let _ = timeout(BEGIN_TIMEOUT_OF_REQUESTS, self.drain.idle()).await;
        };
        tokio::select! {
            biased;
            () = self.drain.begun() => true,
            () = not_begun => false,
        }
    }
}

fn readiness_response(available: Result<(), Unavailable>) -> Response<Full<Bytes>> {
    match available {
        Ok(()) => text_response(StatusCode::OK, "ok\n"),
        Err(unavailable) => RequestError::from(unavailable).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use autoscaler::Protocol;
    use autoscaler::contract::START_DRAIN_HEADER;
    use autoscaler::routing::breaker::ConcurrencyLimit;
    use tokio::time::Instant;

    use super::*;
    use crate::app_connection::PodAddresses;
    use crate::readiness::app_probe::AppProbe;
    use crate::readiness::app_readiness::AppReadiness;
    use crate::readiness::readiness_probe::ReadinessProbe;
    use crate::stats::metrics::Metrics;
    use crate::stats::request_counter::RequestCounter;
    use crate::stats::uncounted_places::UncountedPlaces;

    const QUIET: Duration = Duration::from_secs(3);
    const UID: &str = "0b2c7d5e-8f43-4a60-9d0c-6f3ad9c5e1b7";
    const KUBELET: &str = "10.0.0.1";

    fn counter() -> Arc<RequestCounter> {
        let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
        Arc::new(RequestCounter::new(Instant::now().into_std(), Duration::ZERO, metrics))
    }

    fn endpoint() -> Arc<AdminEndpoint> {
        endpoint_with(counter())
    }

    /// An endpoint with drains that end after a quiet period, and an app that never starts.
    fn endpoint_with(counter: Arc<RequestCounter>) -> Arc<AdminEndpoint> {
        let uncounted = Arc::new(UncountedPlaces::new(ConcurrencyLimit::Unlimited));
        let drain = Arc::new(Drain::new(counter, uncounted, QUIET, Duration::from_secs(25)));
        let app =
            || AppProbe::new(absent(), ReadinessProbe::tcp(absent()), PodAddresses::find(Protocol::Http));
        let availability = Availability::new(AppReadiness::new(app()), drain.clone());
        let (supervised, probe) = (drain.clone(), app());
        tokio::spawn(async move { supervised.supervise(&probe).await });
        Arc::new(AdminEndpoint {
            availability,
            drain,
            drain_waits: DrainWaits::default(),
            identity: PodIdentity::new(Some(UID.parse().unwrap())),
            tcp: None,
        })
    }

    /// An address without a listener.
    fn absent() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }

    async fn status(endpoint: &AdminEndpoint, method: Method, path: &str, peer: &str) -> StatusCode {
        let request = Request::builder().method(method).uri(path).header(START_DRAIN_HEADER, UID);
        let request = request.body(()).unwrap();
        endpoint.handle(request, peer.parse().unwrap()).await.status()
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_drain_without_a_drain_ends_and_begins_none() {
        let endpoint = endpoint();
        let began = Instant::now();
        assert_eq!(status(&endpoint, Method::GET, WAIT_FOR_DRAIN_PATH, KUBELET).await, StatusCode::OK);
        assert_eq!(began.elapsed(), BEGIN_TIMEOUT);
        assert!(!endpoint.drain.is_draining());
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_drain_without_a_drain_waits_longer_while_requests_run() {
        let (counter, longest) = (counter(), BEGIN_TIMEOUT + BEGIN_TIMEOUT_OF_REQUESTS);
        let endpoint = endpoint_with(counter.clone());
        for (runs, expected) in [(QUIET, BEGIN_TIMEOUT), (2 * QUIET, 2 * QUIET), (20 * QUIET, longest)] {
            let (began, request) = (Instant::now(), counter.enter(true));
            tokio::spawn(async move {
                sleep(runs).await;
                drop(request);
            });
            assert_eq!(status(&endpoint, Method::GET, WAIT_FOR_DRAIN_PATH, KUBELET).await, StatusCode::OK);
            let waited = began.elapsed();
            assert!((expected..expected + Duration::from_millis(100)).contains(&waited), "{waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn wait_for_drain_waits_for_one_that_begins_later() {
        let endpoint = endpoint();
        let hook = {
            let endpoint = endpoint.clone();
            tokio::spawn(async move { status(&endpoint, Method::GET, WAIT_FOR_DRAIN_PATH, KUBELET).await })
        };
        tokio::time::sleep(BEGIN_TIMEOUT / 2).await;
        let began = Instant::now();
        assert_eq!(status(&endpoint, Method::POST, START_DRAIN_PATH, "127.0.0.1").await, StatusCode::OK);
        assert_eq!(hook.await.unwrap(), StatusCode::OK);
        assert!(began.elapsed() >= QUIET, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_pod_itself_starts_a_drain() {
        let endpoint = endpoint();
        for peer in [KUBELET, "10.0.0.2", "::ffff:10.0.0.2", "fd00::2"] {
            let refused = status(&endpoint, Method::POST, START_DRAIN_PATH, peer).await;
            assert_eq!(refused, StatusCode::FORBIDDEN, "{peer}");
        }
        assert_eq!(status(&endpoint, Method::GET, START_DRAIN_PATH, "::1").await, StatusCode::NOT_FOUND);
        assert!(!endpoint.drain.is_draining());
        assert_eq!(status(&endpoint, Method::POST, START_DRAIN_PATH, "::1").await, StatusCode::OK);
        assert!(endpoint.drain.is_draining());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_of_other_pods_leave_a_place_for_the_kubelet() {
        let endpoint = endpoint();
        let others: Vec<_> = (0..100)
            .map(|_| {
                let endpoint = endpoint.clone();
                tokio::spawn(
                    async move { status(&endpoint, Method::GET, WAIT_FOR_DRAIN_PATH, "10.0.0.2").await },
                )
            })
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(status(&endpoint, Method::GET, WAIT_FOR_DRAIN_PATH, KUBELET).await, StatusCode::OK);
        let mut refused = 0;
        for other in others {
            refused += usize::from(other.await.unwrap() == StatusCode::SERVICE_UNAVAILABLE);
        }
        assert_eq!(refused, 100 - crate::readiness::drain_waits::MAX_OF_PEER);
    }
}
