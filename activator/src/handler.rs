//! One request, from its head to the end of its response's body.
//!
//! ```text
//! probe? ─► admitted? ─► counted in (pokes) ─► throttled: held until a pod has a place ─► forwarded ─► tracked body
//!                                                ▲                                          │
//!                                                └── the pod refused the connection ────────┘
//! ```
//!
//! The count and the slot travel in the response's body and end with it. A caller that goes away drops this future, and
//! with it its place in the queue, its slot and its count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use autoscaler::contract::{PROBE_ACTIVATOR, PROXIED_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use chassis::gateway::{self, Malformed};
use chassis::server::{Connection, LastResponse};
use chassis::tracked_body::TrackedBody;
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::cold_start::{ColdStart, SERVER_TIMING};
use crate::concurrency_reporter::Counted;
use crate::error_response::{self, Error};
use crate::forward::{self, Upgrade};
use crate::held_body::HeldBody;
use crate::probe;
use crate::throttler::Shared;
use crate::workload_throttler::{Slot, WorkloadThrottler};

/// A pod's body, or one of our own.
pub type ResponseBody = Either<TrackedBody<Incoming, Running>, Full<Bytes>>;

/// What a request holds while it runs. The slot goes first.
#[derive(Debug)]
pub struct Running {
    _slot: Slot,
    _counted: Counted,
}

/// Handles what arrives on one leased port.
#[derive(Clone, Debug)]
pub struct Handler {
    shared: Arc<Shared>,
    workload: Arc<WorkloadThrottler>,
    pod_port: u16,
}

/// A request that is on its way.
struct OnItsWay {
    received: Instant,
    head: Parts,
    body: HeldBody<Incoming>,
    upgrade: Option<Upgrade>,
    counted: Counted,
}

// === impl Handler ===

impl Handler {
    /// Sends requests of `workload` to `pod_port` of its pods.
    pub fn new(shared: Arc<Shared>, workload: Arc<WorkloadThrottler>, pod_port: u16) -> Self {
        Self { shared, workload, pod_port }
    }

    /// The response to a request that came on `ends`.
    pub async fn handle(&self, request: Request<Incoming>, ends: &Connection) -> Response<ResponseBody> {
        if let Err(malformed) = gateway::check(&request) {
            return self.refuse(malformed, request.version());
        }
        if let Some(answer) = probe::answer(request.headers(), self.workload.key()) {
            return answer.map(Either::Right);
        }
        let version = request.version();
        let mut response = self.serve(request, ends).await.unwrap_or_else(|error| {
            tracing::debug!(workload = %self.workload.key(), %error, "request failed");
            error_response::respond(&error, self.workload.key()).map(Either::Right)
        });
        self.workload.metrics().answered(response.status());
        if self.sends_callers_away() {
            send_away(&mut response, version);
        }
        response
    }

    /// Neither counted nor held, and the end of its connection.
    fn refuse(&self, malformed: Malformed, version: Version) -> Response<ResponseBody> {
        let mut response = error_response::respond(&malformed.into(), self.workload.key()).map(Either::Right);
        self.workload.metrics().answered(response.status());
        close(&mut response, version);
        response
    }

    async fn serve(
        &self,
        request: Request<Incoming>,
        ends: &Connection,
    ) -> Result<Response<ResponseBody>, Error> {
        let request = self.count_in(request, ends)?;
        let deadline = request.received + self.workload.wake_timeout();
        let mut held = false;
        loop {
            let slot = self.throttle(&request.body, deadline).await?;
            held |= slot.waited();
            let forwarded = Instant::now();
            let to = (slot.pod().ip, self.pod_port).into();
            match self.shared.forwarder.send(to, &request.head, &request.body).await {
                Ok(mut response) => {
                    gateway::to_caller(&mut response, request.upgrade.is_some())
                        .map_err(forward::Error::from)?;
                    if held {
                        self.tell_times(&mut response, &request, &slot, forwarded);
                    }
                    return Ok(request.answer(response, slot));
                }
                Err(forward::Error::Unreachable(error)) if Instant::now() < deadline => {
                    tracing::debug!(workload = %self.workload.key(), %to, %error, "pod set aside");
                    slot.set_pod_aside();
                    held = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn count_in(&self, mut request: Request<Incoming>, ends: &Connection) -> Result<OnItsWay, Error> {
        let received = Instant::now();
        self.workload.admits()?;
        let counted = self.shared.reporter.request_in(self.workload.counter());
        self.workload.probe_if_wanted();
        let upgrade = Upgrade::of(&mut request);
        gateway::to_next_hop(&mut request, ends);
        let (mut head, body) = request.into_parts();
        head.headers.remove(WORKLOAD_HEADER);
        head.headers.insert(PROXIED_HEADER, HeaderValue::from_static(PROBE_ACTIVATOR));
        Ok(OnItsWay { received, head, body: HeldBody::new(body), upgrade, counted })
    }

    async fn throttle(&self, body: &HeldBody<Incoming>, deadline: Instant) -> Result<Slot, Error> {
        tokio::select! {
            biased;
            slot = self.workload.throttle(deadline) => Ok(slot?),
            never = body.peek() => match never {},
        }
    }

    fn tell_times<B>(&self, response: &mut Response<B>, request: &OnItsWay, slot: &Slot, forwarded: Instant) {
        let poke = self.workload.counter().poke();
        let way = ColdStart::of(request.received, poke, slot.pod(), forwarded);
        way.observe(&self.shared.metrics.cold_start);
        if let Some(times) = way.server_timing() {
            response.headers_mut().append(SERVER_TIMING, times);
        }
    }

    /// Whether callers should connect anew, and find pods or another activator then.
    fn sends_callers_away(&self) -> bool {
        self.workload.is_serving() || self.shared.draining.load(Ordering::Relaxed)
    }
}

// === impl OnItsWay ===

impl OnItsWay {
    /// The pod's response, with what ends with it.
    fn answer(self, mut response: Response<Incoming>, slot: Slot) -> Response<ResponseBody> {
        let running = Running { _slot: slot, _counted: self.counted };
        let running = match self.upgrade {
            Some(upgrade) => upgrade.tunnel(&mut response, running),
            None => Some(running),
        };
        let (head, body) = response.into_parts();
        let body = match running {
            Some(running) => Either::Left(TrackedBody::new(body, running)),
            // The tunnel holds on; a 101 has no body.
            None => Either::Right(Full::default()),
        };
        Response::from_parts(head, body)
    }
}

/// The connection takes no more requests after this one.
fn send_away<B>(response: &mut Response<B>, version: Version) {
    if version == Version::HTTP_2 {
        response.extensions_mut().insert(LastResponse);
    }
    close(response, version);
}

/// HTTP/2 has no such header.
fn close<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 && response.status() != StatusCode::SWITCHING_PROTOCOLS {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
}
