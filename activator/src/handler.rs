//! One request, from its head to the end of its response's body.
//!
//! ```text
//! probe? ─► health check? ─► admitted? ─► counted in (pokes) ─► throttled: held until a pod has a place ─► forwarded
//!                                                                 ▲                                          │  │
//!                                                                 └───── the pod is not there, after all ─────┘  ▼
//!                                                                                                     tracked body
//! ```
//!
//! The count and the slot travel in the response's body and end with it. A caller that goes away drops this future, and
//! with it its place in the queue, its slot and its count.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use autoscaler::contract::{PROBE_ACTIVATOR, PROXIED_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, Version};
use http_body::Body;
use http_body_util::{Either, Full};
use http_client::ResponseBody;
use hyper::body::Incoming;
use proxy::gateway::{self, MalformedRequest};
use proxy::listener::ConnectionAddresses;
use proxy::server;
use proxy::tracked_body::TrackedBody;
use tokio::time::Instant;

use crate::cold_start::{ColdStart, SERVER_TIMING};
use crate::concurrency_reporter::Counted;
use crate::error_response::{self, Error};
use crate::forward::{self, Forwarder, Upgrade};
use crate::health_check::{self, OwnBody};
use crate::held_body::HeldBody;
use crate::rounds::Rounds;
use crate::slot_queue::Slot;
use crate::throttler::Shared;
use crate::workload_throttler::WorkloadThrottler;
use crate::{held_places, probe};

/// How often a request that a pod left without an answer goes to another: what kills whoever gets it must not get them all.
const MOST_RESENT: u32 = 3;

/// A pod's body, or one of our own.
pub type AnswerBody = Either<TrackedBody<ResponseBody, Option<Running>>, OwnBody>;

/// What a request holds while it runs. The slot goes first.
#[derive(Debug)]
pub struct Running {
    _slot: Slot,
    _counted: Counted,
}

/// Handles what arrives on one leased port.
#[derive(Debug)]
pub struct Handler {
    shared: Arc<Shared>,
    workload: Arc<WorkloadThrottler>,
    pod_port: u16,
    /// Of what was held, by worker; most ports never need them.
    rounds: Box<[OnceLock<Arc<Rounds>>]>,
}

/// A request that is on its way.
struct OnItsWay {
    received: Instant,
    head: Parts,
    /// Of the body, if it is known.
    length: Option<u64>,
    body: HeldBody<Incoming>,
    upgrade: Option<Upgrade>,
    counted: Counted,
    /// Whether it had to wait for a pod.
    held: bool,
    /// How often it was sent anew.
    resent: u32,
}

// === impl Handler ===

impl Handler {
    /// Sends requests of `workload` to `pod_port` of its pods.
    pub fn new(shared: Arc<Shared>, workload: Arc<WorkloadThrottler>, pod_port: u16) -> Self {
        let rounds = (0..shared.limits.workers()).map(|_| OnceLock::new()).collect();
        Self { shared, workload, pod_port, rounds }
    }

    /// The response to a request that came on `ends`, and goes to a pod by the `forwarder` of its thread.
    ///
    /// Each connection keeps the room for this future, and a held request keeps it filled: what would be moved from function
    /// to function, and what is rare, is boxed.
    pub async fn handle(
        &self,
        request: Request<Incoming>,
        ends: &ConnectionAddresses,
        forwarder: &Forwarder,
    ) -> Response<AnswerBody> {
        if let Err(malformed) = gateway::check_request(&request) {
            return self.refuse(malformed, request.version());
        }
        if let Some(answer) = probe::answer(request.headers(), self.workload.key()) {
            return own(answer);
        }
        let version = request.version();
        let request = Box::new(request);
        let mut response = if self.shared.health_checks.matches(request.headers()) {
            let answered = Box::pin(self.check_health(request, ends, forwarder)).await;
            answered.unwrap_or_else(|error| self.fail(&error))
        } else {
            let answered = self.serve(request, ends, forwarder).await;
            let response = answered.unwrap_or_else(|error| self.fail(&error));
            self.workload.metrics().answered(response.status());
            response
        };
        if self.sends_callers_away() {
            server::drain_connection(&mut response, version);
        }
        response
    }

    /// Neither counted nor held, and the end of its connection.
    fn refuse(&self, malformed: MalformedRequest, version: Version) -> Response<AnswerBody> {
        let mut response = self.fail(&malformed.into());
        self.workload.metrics().answered(response.status());
        server::close_connection(&mut response, version);
        response
    }

    fn fail(&self, error: &Error) -> Response<AnswerBody> {
        tracing::debug!(workload = %self.workload.key(), %error, "request failed");
        own(error_response::respond(error, self.workload.key()))
    }

    /// Neither counted nor held. The app is asked if there is one, beside its limit; its sidecar knows such requests as well.
    async fn check_health(
        &self,
        mut request: Box<Request<Incoming>>,
        ends: &ConnectionAddresses,
        forwarder: &Forwarder,
    ) -> Result<Response<AnswerBody>, Error> {
        self.workload.admits()?;
        let asleep = health_check::yes(&*request).map(Either::Right);
        let Some(pod) = self.workload.any_pod() else { return Ok(asleep) };
        to_pod(&mut *request, ends);
        let (head, body) = (*request).into_parts();
        let to = (pod.ip, self.pod_port).into();
        match forwarder.send(to, &head, &HeldBody::new(body)).await {
            Ok(mut response) => {
                gateway::prepare_response(&mut response, false).map_err(forward::Error::from)?;
                Ok(response.map(|body| Either::Left(TrackedBody::new(body, None))))
            }
            // So would a request be held.
            Err(forward::Error::Unreachable(_) | forward::Error::Unanswered(_)) => Ok(asleep),
            Err(error) => Err(error.into()),
        }
    }

    async fn serve(
        &self,
        request: Box<Request<Incoming>>,
        ends: &ConnectionAddresses,
        forwarder: &Forwarder,
    ) -> Result<Response<AnswerBody>, Error> {
        let mut request = self.count_in(request, ends)?;
        let deadline = request.received + self.workload.wake_timeout();
        loop {
            let mut slot = self.throttle(&request, deadline).await?;
            request.held |= slot.waited();
            let forwarded = Instant::now();
            match self.send(&request, &mut slot, forwarder).await {
                Ok(mut response) => {
                    gateway::prepare_response(&mut response, request.upgrade.is_some())
                        .map_err(forward::Error::from)?;
                    if request.held {
                        self.tell_times(&mut response, &request, &slot, forwarded);
                    }
                    return Ok(request.answer(response, slot));
                }
                Err(error @ (forward::Error::Unreachable(_) | forward::Error::Unanswered(_)))
                    if request.resent < MOST_RESENT && Instant::now() < deadline =>
                {
                    tracing::debug!(workload = %self.workload.key(), pod = %slot.pod().ip, %error, "pod set aside");
                    self.workload.set_aside(slot);
                    request.held = true;
                    request.resent += u32::from(matches!(error, forward::Error::Unanswered(_)));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn count_in(
        &self,
        mut request: Box<Request<Incoming>>,
        ends: &ConnectionAddresses,
    ) -> Result<Box<OnItsWay>, Error> {
        let received = Instant::now();
        self.workload.admits()?;
        let counted = self.shared.reporter.request_in(self.workload.counter());
        self.workload.probe_if_wanted();
        let upgrade = Upgrade::of(&mut *request);
        to_pod(&mut *request, ends);
        let (head, body) = (*request).into_parts();
        let length = body.size_hint().upper();
        let body = HeldBody::new(body);
        Ok(Box::new(OnItsWay { received, head, length, body, upgrade, counted, held: false, resent: 0 }))
    }

    async fn throttle(&self, request: &OnItsWay, deadline: Instant) -> Result<Slot, Error> {
        let kept = || held_places::kept_by(&request.head, request.length);
        tokio::select! {
            biased;
            slot = self.workload.throttle(request.received, deadline, kept) => Ok(slot?),
            never = request.body.peek() => match never {},
        }
    }

    /// To the pod of its slot; what was held in turn with the others that were.
    async fn send(
        &self,
        request: &OnItsWay,
        slot: &mut Slot,
        forwarder: &Forwarder,
    ) -> Result<Response<ResponseBody>, forward::Error> {
        let to = (slot.pod().ip, self.pod_port).into();
        let Some(rounds) = self.rounds.get(forwarder.worker()).filter(|_| request.held) else {
            return forwarder.send(to, &request.head, &request.body).await;
        };
        let work = Box::pin(async {
            slot.run();
            forwarder.send(to, &request.head, &request.body).await
        });
        rounds.get_or_init(Arc::default).take_turns(work).await
    }

    fn tell_times<B>(&self, response: &mut Response<B>, request: &OnItsWay, slot: &Slot, forwarded: Instant) {
        let poke = self.workload.counter().poke();
        let start = self.workload.pod_starts().of(&slot.pod().uid);
        let way = ColdStart::of(request.received, poke, start, slot.pod(), forwarded);
        self.workload.cold_start(&way);
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
    fn answer(self: Box<Self>, mut response: Response<ResponseBody>, slot: Slot) -> Response<AnswerBody> {
        let running = Running { _slot: slot, _counted: self.counted };
        let running = match self.upgrade {
            Some(upgrade) => upgrade.tunnel(&mut response, running),
            None => Some(running),
        };
        let (head, body) = response.into_parts();
        let body = match running {
            Some(running) => Either::Left(TrackedBody::new(body, Some(running))),
            // The tunnel holds on; a 101 has no body.
            None => Either::Right(Either::Left(Full::default())),
        };
        Response::from_parts(head, body)
    }
}

/// Makes a request one for a pod.
fn to_pod<B>(request: &mut Request<B>, ends: &ConnectionAddresses) {
    gateway::prepare_request(request, ends);
    let headers = request.headers_mut();
    headers.remove(WORKLOAD_HEADER);
    headers.insert(PROXIED_HEADER, HeaderValue::from_static(PROBE_ACTIVATOR));
}

fn own(answer: Response<Full<Bytes>>) -> Response<AnswerBody> {
    answer.map(|body| Either::Right(Either::Left(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a connection keeps room for, and a held request fills.
    const MOST: usize = 2048;

    fn size_of<'a, F>(
        _: impl FnOnce(&'a Handler, Request<Incoming>, &'a ConnectionAddresses, &'a Forwarder) -> F,
    ) -> usize {
        std::mem::size_of::<F>()
    }

    #[test]
    fn a_held_request_takes_little() {
        let size = size_of(Handler::handle);
        assert!(size <= MOST, "{size} bytes");
    }
}
