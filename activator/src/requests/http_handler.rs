//! HttpHandler: one request, from its head to the end of its response body.
//!
//! ```text
//! probe? ─► no load? ─► admitted? ─► counted (pokes) ─► held until a pod has a slot ─► forwarded
//!                                                       ▲                            │   │
//!                                                       └───── pod unreachable ──────┘   ▼
//!                                                                               tracked body
//! ```
//!
//! The count, the slot and the memory travel in the response body and end with it. When the client
//! disconnects, this future is dropped, and with it the request's position in the queue and all
//! that it holds.

mod browser;
mod fair_scheduler;
mod kept_stream;
mod uncounted;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use autoscaler::contract::INTERNAL_HEADERS;
use autoscaler::history::FirstRequest;
use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response, Version};
use http_body::Body;
use http_body_util::{Either, Full};
use http_client::ResponseBody;
use proxy::gateway::grpc::{self, Call, CallFailure, DeadlineExceeded};
use proxy::gateway::{self, MalformedRequest, Sender};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::memory::budget::MemoryPermit;
use proxy::memory::estimates::{held_bytes, request_bytes};
use proxy::server;
use proxy::timeouts::request_timer::RequestTimer;
use tokio::time::Instant;

use self::fair_scheduler::FairScheduler;
use crate::pods::forwarder::{ForwardError, Forwarder};
use crate::pods::pod_tracker::PodTracker;
use crate::queue::rejection::Rejection;
use crate::queue::slot_queue::SlotPermit;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::reports::cold_start::{ColdStartTrace, SERVER_TIMING};
use crate::requests::activator_probe;
use crate::requests::context::RequestContext;
use crate::requests::error_response::{self, RequestError};
use crate::requests::http_connection::HttpConnection;
use crate::requests::pending_request::{HandlerBody, PendingRequest, held_body};
use crate::requests::upgrade::Upgrade;
use crate::workloads::LeasedPort;

/// How often a request is sent again that a pod left unanswered, or refused as another one's: a
/// request that crashes its pod must not crash them all.
const MAX_RESENDS: u32 = 3;

/// Handles the requests of one leased port.
#[derive(Debug)]
pub struct HttpHandler {
    context: Arc<RequestContext>,
    workload: Arc<WorkloadThrottler>,
    /// Its pods' ports change with the workload; the listener stays.
    port: ArcSwap<LeasedPort>,
    /// By worker; made when the first held request is released, which most ports never see.
    schedulers: Box<[OnceLock<Arc<FairScheduler>>]>,
}

// === impl HttpHandler ===

impl HttpHandler {
    /// Forwards requests of `workload` that arrive on the leased `port` to its pods.
    pub fn new(context: Arc<RequestContext>, workload: Arc<WorkloadThrottler>, port: LeasedPort) -> Self {
        let schedulers = (0..context.workers).map(|_| OnceLock::new()).collect();
        Self { context, workload, port: ArcSwap::from_pointee(port), schedulers }
    }

    /// Applies a new state of the leased port.
    pub fn set_port(&self, port: LeasedPort) {
        self.port.store(Arc::new(port));
    }

    /// Counts a new connection to this port.
    pub fn connection_arrived(&self) {
        self.context.arrivals.record();
    }

    /// Takes the memory of a connection; `None` if it must be closed.
    pub fn admit_connection(&self) -> Option<HttpConnection> {
        HttpConnection::admit(self.workload.clone())
    }

    /// The response to a request on the connection with these `addresses`, forwarded by the
    /// `forwarder` of its thread.
    ///
    /// Each connection reserves memory for this future, and a held request keeps it in use. So
    /// values that would be moved from function to function are boxed, and so are rare branches.
    pub async fn handle(
        self: &Arc<Self>,
        request: Box<Request<IncomingBody>>,
        addresses: &Arc<ConnectionAddresses>,
        forwarder: &Arc<Forwarder>,
    ) -> Response<HandlerBody> {
        if let Err(malformed) = gateway::check_request(&request) {
            return self.reject_malformed(malformed, &request);
        }
        if let Some(response) = activator_probe::respond(request.headers(), self.workload.key()) {
            return local(response);
        }
        let (version, call) = (request.version(), Call::of(&request));
        let mut response = if let Some((uncounted, pod)) = self.enter_uncounted(&*request) {
            let result = Box::pin(self.serve_uncounted(request, uncounted, pod, addresses, forwarder)).await;
            result.unwrap_or_else(|error| self.fail(&error))
        } else if let Some(browser) = self.browser_request(&*request) {
            Box::pin(self.serve_browser(browser, request, addresses, forwarder)).await
        } else if self.keeps_alive(&*request) {
            Box::pin(self.serve_stream(request, addresses, forwarder)).await
        } else {
            let result = match self.admit(request, addresses, forwarder.worker()) {
                Ok(request) => self.serve(request, forwarder).await,
                Err(error) => Err(error),
            };
            self.respond(result)
        };
        name_call_status(&mut response, call);
        if self.asks_clients_to_reconnect() {
            server::drain_connection(&mut response, version);
        }
        response
    }

    /// Neither counts nor holds the request, and closes its connection.
    fn reject_malformed<B>(
        &self,
        malformed: MalformedRequest,
        request: &Request<B>,
    ) -> Response<HandlerBody> {
        let mut response = self.fail(&malformed.into());
        self.workload.metrics().answered(response.status());
        name_call_status(&mut response, Call::of(request));
        server::close_connection(&mut response, request.version());
        response
    }

    /// Counts the response, or that to an error.
    fn respond(&self, result: Result<Response<HandlerBody>, RequestError>) -> Response<HandlerBody> {
        let response = result.unwrap_or_else(|error| self.fail(&error));
        self.workload.metrics().answered(response.status());
        response
    }

    fn fail(&self, error: &RequestError) -> Response<HandlerBody> {
        tracing::debug!(workload = %self.workload.key(), %error, "request failed");
        local(error_response::respond(error, self.workload.key()))
    }

    fn deadline(&self, request: &PendingRequest) -> Instant {
        request.received + self.workload.wake_timeout()
    }

    async fn serve(
        &self,
        mut request: Box<PendingRequest>,
        forwarder: &Forwarder,
    ) -> Result<Response<HandlerBody>, RequestError> {
        let deadline = self.deadline(&request);
        loop {
            let mut slot = match request.granted.take() {
                Some(slot) => slot,
                None => self.acquire(&mut request, deadline).await?,
            };
            request.held |= slot.waited();
            request.reduce_call_timeout().map_err(|rejection| request.fail(rejection))?;
            slot.pod().mark(&mut request.head.headers);
            request.observed = self.workload.observe(slot.pod());
            let forwarded = request.begin_forward();
            let sent = if request.timer.has_timeouts() {
                // Boxed: otherwise the future of every request would be larger.
                Box::pin(self.send_within_timeouts(&mut request, &mut slot, forwarder)).await
            } else {
                self.send(&request, &mut slot, forwarder).await
            };
            match &sent {
                Ok(response) => request.observe_response(response.status()),
                Err(error) => request.observe_failure(error),
            }
            match sent {
                Ok(mut response) => {
                    gateway::prepare_response(&mut response, request.upgrade.is_some())
                        .map_err(|invalid| request.fail(ForwardError::from(invalid)))?;
                    if let Some(forwarded) = forwarded {
                        self.trace(&mut response, &mut request, &slot, forwarded);
                    }
                    return Ok(request.into_response(response, slot));
                }
                Err(error @ ForwardError::OtherPod) if !request.body.is_whole() => {
                    self.workload.eject(slot);
                    return Err(request.fail(error));
                }
                Err(
                    error @ (ForwardError::Unreachable(_)
                    | ForwardError::Unanswered(_)
                    | ForwardError::OtherPod),
                ) if request.resends < MAX_RESENDS && Instant::now() < deadline => {
                    tracing::debug!(workload = %self.workload.key(), pod = %slot.pod().ip, %error, "pod ejected");
                    self.workload.eject(slot);
                    request.hold_again();
                    request.resends += u32::from(!matches!(error, ForwardError::Unreachable(_)));
                }
                Err(error) => return Err(request.fail(error)),
            }
        }
    }

    /// Counts the request in, unless the workload takes none.
    fn admit(
        &self,
        mut request: Box<Request<IncomingBody>>,
        addresses: &Arc<ConnectionAddresses>,
        worker: usize,
    ) -> Result<Box<PendingRequest>, RequestError> {
        let received = Instant::now();
        self.workload.check_admission()?;
        let upgrade = Upgrade::of(&mut *request);
        let memory = self.take_memory(request.version(), upgrade.is_some())?;
        let counted = self.workload.count_request(|| Some(describe(&request, addresses)));
        self.workload.prober().probe_if_wanted();
        prepare_for_pod(&mut *request, addresses);
        let (head, body) = (*request).into_parts();
        let tracer = self.context.tracer.as_ref();
        let trace = tracer.and_then(|tracer| tracer.begin(&head, self.workload.key(), received));
        let body_size = body.size_hint().upper();
        let timer = self.workload.start_timer(worker, received);
        let call_deadline = grpc::call_deadline(&head.headers, received);
        let body = held_body(body, &timer);
        Ok(Box::new(PendingRequest {
            received,
            addresses: addresses.clone(),
            head,
            body_size,
            body,
            timer,
            upgrade,
            call_deadline,
            counted,
            granted: None,
            observed: None,
            memory,
            held: false,
            resends: 0,
            trace,
        }))
    }

    /// `None` if the memory of its connection suffices.
    fn take_memory(&self, version: Version, upgrades: bool) -> Result<Option<MemoryPermit>, Rejection> {
        match request_bytes(version, upgrades) {
            0 => Ok(None),
            bytes => self.workload.memory().take(bytes).map(Some),
        }
    }

    /// Holds the request until it has a slot. A rejection ends its trace.
    async fn acquire(
        &self,
        request: &mut PendingRequest,
        deadline: Instant,
    ) -> Result<SlotPermit, RequestError> {
        let held = || held_bytes(&request.head, request.body_size);
        let until = request.call_deadline.map_or(deadline, |call| call.min(deadline));
        let acquired = tokio::select! {
            biased;
            acquired = self.workload.acquire(request.received, until, held) => acquired,
            never = request.body.peek() => match never {},
        };
        acquired.map_err(|rejection| {
            let is_late = until < deadline && Instant::now() >= until;
            let rejection = if is_late { DeadlineExceeded.into() } else { rejection };
            request.fail(request.name_own(&self.workload, rejection))
        })
    }

    async fn send_within_timeouts(
        &self,
        request: &mut PendingRequest,
        slot: &mut SlotPermit,
        forwarder: &Forwarder,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        let mut timer = std::mem::replace(&mut request.timer, RequestTimer::unlimited(request.received));
        timer.restart(Instant::now());
        let sent = timer.within(pin!(self.send(request, slot, forwarder))).await;
        request.timer = timer;
        sent
    }

    /// Sends the request to the pod of its slot; a held request goes through the fair scheduler.
    async fn send(
        &self,
        request: &PendingRequest,
        slot: &mut SlotPermit,
        forwarder: &Forwarder,
    ) -> Result<Response<ResponseBody>, ForwardError> {
        let to = self.address(slot.pod())?;
        let Some(scheduler) = self.schedulers.get(forwarder.worker()).filter(|_| request.held) else {
            return forwarder
                .send(slot.pod(), to, &request.head, &request.body, &request.addresses.bound)
                .await;
        };
        let work = Box::pin(async {
            slot.mark_running();
            forwarder.send(slot.pod(), to, &request.head, &request.body, &request.addresses.bound).await
        });
        scheduler.get_or_init(Arc::default).run(work).await
    }

    fn address(&self, pod: &PodTracker) -> Result<SocketAddr, ForwardError> {
        pod.address(&self.port.load()).ok_or(ForwardError::NoPort)
    }

    /// Records what a held request waited for, and ends the trace of a sampled one.
    fn trace<B>(
        &self,
        response: &mut Response<B>,
        request: &mut PendingRequest,
        slot: &SlotPermit,
        forwarded: Instant,
    ) {
        let (received, pod) = (request.received, slot.pod());
        let phases = if request.held {
            self.workload.cold_starts().trace(received, pod, forwarded)
        } else {
            ColdStartTrace::of(received, None, None, pod, forwarded)
        };
        if let Some(timing) = phases.server_timing().filter(|_| request.held) {
            response.headers_mut().append(SERVER_TIMING, timing);
        }
        if let Some(trace) = request.trace.take() {
            trace.answer(response.status(), pod.ip, phases);
        }
    }

    /// Whether clients should connect again, to find pods or another activator.
    fn asks_clients_to_reconnect(&self) -> bool {
        self.workload.settings().serving || self.context.draining.load(Ordering::Relaxed)
    }
}

/// Makes a response of this process one of gRPC, if the request was a call.
fn name_call_status(response: &mut Response<HandlerBody>, call: Option<Call>) {
    if call.is_some_and(|call| CallFailure::respond(response, call)) {
        *response.body_mut() = Either::Right(Either::Left(Full::default()));
    }
}

/// The request for a report, as it was sent.
fn describe<B>(request: &Request<B>, addresses: &ConnectionAddresses) -> FirstRequest {
    let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
    FirstRequest::of_http(addresses.peer_ip(), request.method().as_str(), request.uri().path(), agent)
}

fn prepare_for_pod<B>(request: &mut Request<B>, addresses: &ConnectionAddresses) {
    gateway::prepare_request(request, addresses, Sender::Client);
    gateway::remove_headers(request.headers_mut(), &INTERNAL_HEADERS);
}

fn local(response: Response<Full<Bytes>>) -> Response<HandlerBody> {
    response.map(|body| Either::Right(Either::Left(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that each connection reserves, and that a held request keeps in use.
    const MAX_BYTES: usize = 1200;

    fn size_of<'a, F>(
        _: impl FnOnce(
            &'a Arc<HttpHandler>,
            Box<Request<IncomingBody>>,
            &'a Arc<ConnectionAddresses>,
            &'a Arc<Forwarder>,
        ) -> F,
    ) -> usize {
        std::mem::size_of::<F>()
    }

    #[test]
    fn future_of_held_request_stays_below_size_bound() {
        let size = size_of(HttpHandler::handle);
        assert!(size <= MAX_BYTES, "{size} bytes");
    }
}
