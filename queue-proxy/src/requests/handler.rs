//! Handler: serves one HTTP request.
//!
//! It refuses requests for another pod, answers probes, and forwards requests that are not load
//! without counting them. It counts every other request, waits for a slot and for the app's start,
//! and forwards it. The request counts until its response body has ended.

use std::pin::pin;
use std::sync::Arc;

use autoscaler::contract;
use autoscaler::history::FirstRequest;
use autoscaler::routing::breaker::Breaker;
use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{Request, Response};
use http_body_util::{Either, Full};
use http_client::ResponseBody;
use proxy::gateway::grpc::{self, DeadlineExceeded};
use proxy::gateway::{self, Sender};
use proxy::listener::ConnectionAddresses;
use proxy::server;
use proxy::timeouts::request_body::RequestBody;
use proxy::timeouts::request_timer::{RequestTimer, RequestTimers};
use proxy::timeouts::response_body::{ResponseGuard, TimedResponseBody};
use tokio::time::{Instant, timeout_at};

use super::app_connections::AppConnections;
use super::error_response::RequestError;
use super::forwarding::forward;
use super::uncounted_requests::UncountedRequests;
use super::upgrade::Upgrade;
use crate::memory::ClientAccount;
use crate::readiness::availability::{Availability, START_TIMEOUT};
use crate::readiness::pod_identity::{Destination, PodIdentity};
use crate::stats::request_counter::{InFlightRequest, RequestCounter};
use crate::stats::returning_clients::ReturningClients;
use crate::stats::uncounted_places::UncountedRequest;

const PROBE: HeaderName = HeaderName::from_static(contract::PROBE_HEADER);

/// A response with the app's body, or with one of the sidecar's own.
pub(crate) type HandlerResponse = Response<HandlerBody>;
/// The body of such a response.
pub(crate) type HandlerBody = Either<TimedResponseBody<RequestGuard>, Full<Bytes>>;

/// What a response body holds until its end.
#[derive(Debug)]
pub(crate) enum RequestGuard {
    Counted(InFlightRequest),
    Uncounted(#[expect(dead_code, reason = "held until the end of the response")] UncountedRequest),
}

/// One worker's handler; the workers share counter, breaker and availability.
#[derive(Debug)]
pub(crate) struct Handler {
    pub(crate) counter: Arc<RequestCounter>,
    pub(crate) breaker: Breaker,
    pub(crate) app: AppConnections,
    pub(crate) availability: Availability,
    pub(crate) identity: PodIdentity,
    pub(crate) uncounted: Arc<UncountedRequests>,
    pub(crate) clients: Arc<ReturningClients>,
    pub(crate) timers: RequestTimers,
}

// === impl Handler ===

impl Handler {
    /// Serves one request for `destination`, with `memory` of its client.
    ///
    /// hyper moves this future into its connection, and each connection has memory for one. To keep
    /// it small, the request and the rare branches are boxed.
    pub(crate) async fn handle(
        &self,
        request: Box<Request<RequestBody>>,
        destination: Destination,
        addresses: &ConnectionAddresses,
        memory: &ClientAccount,
    ) -> HandlerResponse {
        let version = request.version();
        let malformed = gateway::check_request(&request).err();
        let mut response = if let Some(malformed) = malformed {
            error_response(malformed.into())
        } else if destination == Destination::OtherPod {
            error_response(RequestError::OtherPod)
        } else if let Some(component) = request.headers().get(PROBE) {
            Box::pin(self.handle_probe(component)).await
        } else if let Some(place) = self.uncounted.enter(&request) {
            let sender = destination.sender();
            Box::pin(self.forward_uncounted(request, place, sender, addresses, memory)).await
        } else {
            self.serve(request, destination.sender(), addresses, memory).await
        };
        if malformed.is_some() {
            server::close_connection(&mut response, version);
        }
        if self.availability.is_draining() {
            server::drain_connection(&mut response, version);
        }
        response
    }

    /// Probes are never counted.
    async fn handle_probe(&self, component: &HeaderValue) -> HandlerResponse {
        match self.availability.handle_probe(component).await {
            Ok(()) => Response::new(Either::Right(Full::from(contract::PROBE_QUEUE_PROXY))),
            Err(unavailable) => error_response(unavailable.into()),
        }
    }

    /// Such requests are not load and must not wait in the queue. Otherwise they are like all
    /// others.
    async fn forward_uncounted(
        &self,
        mut request: Box<Request<RequestBody>>,
        place: UncountedRequest,
        sender: Sender,
        addresses: &ConnectionAddresses,
        memory: &ClientAccount,
    ) -> HandlerResponse {
        let upgrade = match Upgrade::of(&mut request, memory) {
            Ok(upgrade) => upgrade,
            Err(exceeded) => return error_response(exceeded.into()),
        };
        let mut timer = self.timers.start(Instant::now());
        request.body_mut().report_to(timer.activity());
        match timer.within(pin!(forward(&self.app, request, addresses, sender, upgrade.is_some()))).await {
            Ok(mut response) => match upgrade.and_then(|upgrade| upgrade.accepted(&mut response)) {
                Some(tunnel) => tunnel.relay(response, place.into_place(), timer.idle_timeout()),
                None => app_response(response, RequestGuard::Uncounted(place), timer),
            },
            Err(error) => error_response(error),
        }
    }

    async fn serve(
        &self,
        mut request: Box<Request<RequestBody>>,
        sender: Sender,
        addresses: &ConnectionAddresses,
        memory: &ClientAccount,
    ) -> HandlerResponse {
        let upgrade = match Upgrade::of(&mut request, memory) {
            Ok(upgrade) => upgrade,
            Err(exceeded) => return error_response(exceeded.into()),
        };
        let mut in_flight = self.counter.enter(sender == Sender::OwnProxy);
        if in_flight.ended_idleness() {
            self.record_client(&request, addresses);
        }
        let mut timer = self.timers.start(in_flight.arrived().into());
        request.body_mut().report_to(timer.activity());
        let is_upgrade = upgrade.is_some();
        let forwarded = timer
            .within(pin!(self.admit_and_forward(request, addresses, sender, is_upgrade, &mut in_flight)))
            .await;
        let mut response = match forwarded {
            Ok(response) => response,
            Err(error) => {
                in_flight.set_status(error.status());
                return error_response(error);
            }
        };
        in_flight.set_status(response.status());
        if let Some(tunnel) = upgrade.and_then(|upgrade| upgrade.accepted(&mut response)) {
            in_flight.leave_app();
            return tunnel.relay(response, in_flight, timer.idle_timeout());
        }
        app_response(response, RequestGuard::Counted(in_flight), timer)
    }

    fn record_client(&self, request: &Request<RequestBody>, addresses: &ConnectionAddresses) {
        let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
        let (method, path) = (request.method().as_str(), request.uri().path());
        self.clients.record(FirstRequest::of_http(addresses.peer_ip(), method, path, agent));
    }

    /// Admits the request, and forwards it.
    async fn admit_and_forward(
        &self,
        mut request: Box<Request<RequestBody>>,
        addresses: &ConnectionAddresses,
        sender: Sender,
        is_upgrade: bool,
        in_flight: &mut InFlightRequest,
    ) -> Result<Response<ResponseBody>, RequestError> {
        if !self.admit_at_once(in_flight) {
            Box::pin(self.hold(&mut request, in_flight)).await?;
        }
        forward(&self.app, request, addresses, sender, is_upgrade).await
    }

    /// Whether the app has started and a slot is free, which the request then has.
    fn admit_at_once(&self, in_flight: &mut InFlightRequest) -> bool {
        if !self.availability.has_started() {
            return false;
        }
        let Some(permit) = self.breaker.try_acquire() else { return false };
        in_flight.hold(permit);
        in_flight.enter_app(in_flight.arrived());
        true
    }

    /// Waits for a slot, then for the app if it is still starting. A call whose deadline passes
    /// meanwhile is not sent.
    async fn hold(
        &self,
        request: &mut Request<RequestBody>,
        in_flight: &mut InFlightRequest,
    ) -> Result<(), RequestError> {
        let deadline = grpc::call_deadline(request.headers(), in_flight.arrived().into());
        let admitted = async {
            in_flight.hold(self.breaker.acquire().await?);
            self.availability.wait_for_start(START_TIMEOUT).await?;
            Ok::<_, RequestError>(())
        };
        match deadline {
            Some(deadline) => timeout_at(deadline, admitted).await.map_err(|_| DeadlineExceeded)??,
            None => admitted.await?,
        }
        let now = Instant::now();
        grpc::reduce_timeout(request.headers_mut(), deadline, now)?;
        in_flight.enter_app(now.into_std());
        Ok(())
    }
}

/// `guard` ends with the response body.
fn app_response(
    response: Response<ResponseBody>,
    guard: RequestGuard,
    timer: RequestTimer,
) -> HandlerResponse {
    TimedResponseBody::wrap(response, Some(guard), timer).map(Either::Left)
}

impl ResponseGuard for RequestGuard {
    fn end(self, failed: bool) {
        if let Self::Counted(in_flight) = self {
            in_flight.end(failed);
        }
    }
}

pub(crate) fn error_response(error: RequestError) -> HandlerResponse {
    error.into_response().map(Either::Right)
}
