//! One request, from top to bottom: probe? count, wait for a slot, forward, count out when the body has ended.

use std::pin::pin;
use std::sync::Arc;

use autoscaler::breaker::Breaker;
use autoscaler::contract;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response, Version};
use http_body_util::{Either, Full};
use http_client::ResponseBody;
use proxy::gateway;
use proxy::health_checks::HealthChecks;
use proxy::listener::ConnectionAddresses;
use proxy::server;
use proxy::tcp;
use tokio::time::Instant;

use crate::app_body::AppBody;
use crate::availability::{Availability, PATIENCE};
use crate::caller_body::CallerBody;
use crate::error_response::Refusal;
use crate::forward::forward;
use crate::request_counter::{InFlight, RequestCounter};
use crate::timeouts::{Stopwatch, Stopwatches};
use crate::upstream::Upstream;

const PROBE: HeaderName = HeaderName::from_static(contract::PROBE_HEADER);
const PROXIED: HeaderName = HeaderName::from_static(contract::PROXIED_HEADER);

/// The app's body with the request that it belongs to, or an answer of our own.
pub(crate) type Answer = Response<Either<AppBody, Full<Bytes>>>;

/// What serving a request takes.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) counter: Arc<RequestCounter>,
    pub(crate) breaker: Breaker,
    pub(crate) upstream: Upstream,
    pub(crate) availability: Availability,
    pub(crate) health_checks: Arc<HealthChecks>,
    pub(crate) stopwatches: Stopwatches,
}

// === impl Handler ===

impl Handler {
    /// The library moves this future into its connection, and each connection keeps the room for one. So it is kept small:
    /// requests, which would be moved from function to function, and what is rare are boxed.
    pub(crate) async fn handle(
        &self,
        request: Box<Request<CallerBody>>,
        ends: &ConnectionAddresses,
    ) -> Answer {
        let version = request.version();
        let malformed = gateway::check_request(&request).err();
        let mut response = if let Some(malformed) = malformed {
            refuse(malformed.into())
        } else if let Some(asked_for) = request.headers().get(PROBE) {
            Box::pin(self.probe(asked_for)).await
        } else if self.health_checks.matches(request.headers()) {
            Box::pin(self.forward_uncounted(request, ends)).await
        } else {
            self.serve(request, ends).await
        };
        if malformed.is_some() {
            server::close_connection(&mut response, version);
        }
        if self.availability.is_draining() {
            server::drain_connection(&mut response, version);
        }
        response
    }

    /// Never counted.
    async fn probe(&self, asked_for: &HeaderValue) -> Answer {
        match self.availability.probe(asked_for).await {
            Ok(()) => Response::new(Either::Right(Full::from(contract::PROBE_QUEUE_PROXY))),
            Err(refusal) => refuse(refusal),
        }
    }

    /// Health checks of the app: no load, and not to be queued behind any.
    async fn forward_uncounted(
        &self,
        mut request: Box<Request<CallerBody>>,
        ends: &ConnectionAddresses,
    ) -> Answer {
        let version = request.version();
        let mut stopwatch = self.stopwatches.start(Instant::now());
        request.body_mut().watch(stopwatch.activity());
        match stopwatch.within(pin!(forward(&self.upstream, request, ends, false))).await {
            Ok(response) => relay(response, version, None, stopwatch),
            Err(refusal) => refuse(refusal),
        }
    }

    async fn serve(&self, mut request: Box<Request<CallerBody>>, ends: &ConnectionAddresses) -> Answer {
        let mut in_flight = self.counter.enter(request.headers().contains_key(PROXIED));
        let version = request.version();
        let mut stopwatch = self.stopwatches.start(in_flight.arrived().into());
        let caller = gateway::is_upgrade_request(&request).then(|| hyper::upgrade::on(&mut *request));
        request.body_mut().watch(stopwatch.activity());
        let asked_to_upgrade = caller.is_some();
        let answered =
            stopwatch.within(pin!(self.admit(request, ends, asked_to_upgrade, &mut in_flight))).await;
        let mut response = match answered {
            Ok(answered) => answered,
            Err(refusal) => {
                in_flight.answered(refusal.status());
                return refuse(refusal);
            }
        };
        in_flight.answered(response.status());
        if let (Some(caller), Some(app)) = (caller, response.body_mut().take_switched()) {
            tokio::spawn(tcp::relay_upgraded(caller, app, in_flight, stopwatch.idle()));
            return response.map(|_| Either::Right(Full::default()));
        }
        relay(response, version, Some(in_flight), stopwatch)
    }

    /// Waits for a slot, then for the app should it still be starting.
    async fn admit(
        &self,
        request: Box<Request<CallerBody>>,
        ends: &ConnectionAddresses,
        asked_to_upgrade: bool,
        in_flight: &mut InFlight,
    ) -> Result<Response<ResponseBody>, Refusal> {
        in_flight.admitted(self.breaker.acquire().await?);
        self.availability.app_within(PATIENCE).await?;
        forward(&self.upstream, request, ends, asked_to_upgrade).await
    }
}

/// `in_flight` ends with the response's body; there is none for health checks.
fn relay(
    response: Response<ResponseBody>,
    version: Version,
    in_flight: Option<InFlight>,
    stopwatch: Stopwatch,
) -> Answer {
    AppBody::of(response, version, in_flight, stopwatch).map(Either::Left)
}

fn refuse(refusal: Refusal) -> Answer {
    refusal.into_response().map(Either::Right)
}
