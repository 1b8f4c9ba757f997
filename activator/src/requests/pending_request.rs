//! PendingRequest: a request from its admission to its response, and what it holds from then on.
//!
//! The [`HttpHandler`](crate::requests::http_handler::HttpHandler) makes and forwards it. The
//! response body owns the [`ResponseGuard`], which ends with it.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::{Either, Full};
use http_client::ResponseBody;
use proxy::gateway::grpc;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::memory::budget::MemoryPermit;
use proxy::timeouts::request_body::RequestBody;
use proxy::timeouts::request_timer::RequestTimer;
use proxy::timeouts::response_body::{self, TimedResponseBody};
use tokio::time::Instant;

use crate::pods::forwarder::ForwardError;
use crate::pods::held_body::HeldBody;
use crate::pods::pod_tracker::UncountedOnPod;
use crate::queue::rejection::Rejection;
use crate::queue::slot_queue::SlotPermit;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::reports::pod_observer::ObservedRequest;
use crate::reports::request_counter::CountedRequest;
use crate::requests::at_zero::held_stream::HeldStream;
use crate::requests::at_zero::local_body::LocalBody;
use crate::requests::error_response::{self, RequestError};
use crate::requests::upgrade::Upgrade;
use crate::traces::request_trace::RequestTrace;

/// The body of a pod's response.
pub type PodBody = TimedResponseBody<ResponseGuard>;

/// The body of a pod's response, perhaps behind comments, or one made by this process.
pub type HandlerBody = Either<Either<PodBody, Box<HeldStream<PodBody>>>, LocalBody>;

/// What the body of a pod's response holds.
#[derive(Debug)]
pub enum ResponseGuard {
    /// Of a request that was counted.
    Running(RunningRequest),
    /// Of a request that was not counted.
    Uncounted(Option<MemoryPermit>, UncountedOnPod),
}

/// What a request holds while it runs. Fields are dropped in order: the slot first.
#[derive(Debug)]
pub struct RunningRequest {
    _slot: SlotPermit,
    observed: Option<Box<ObservedRequest>>,
    _counted: CountedRequest,
    _memory: Option<MemoryPermit>,
}

/// A request that has no response yet.
pub(super) struct PendingRequest {
    pub(super) received: Instant,
    /// Of its client's connection.
    pub(super) addresses: Arc<ConnectionAddresses>,
    pub(super) head: Parts,
    /// Upper bound of the body's size, if it has one.
    pub(super) body_size: Option<u64>,
    pub(super) body: HeldBody<RequestBody>,
    /// Runs from the moment the request has a slot.
    pub(super) timer: RequestTimer,
    pub(super) upgrade: Option<Upgrade>,
    /// When a gRPC call is too late.
    pub(super) call_deadline: Option<Instant>,
    pub(super) counted: CountedRequest,
    /// The slot that it was granted before it is served.
    pub(super) granted: Option<SlotPermit>,
    /// Of the attempt that runs, if its pod is observed.
    pub(super) observed: Option<Box<ObservedRequest>>,
    pub(super) memory: Option<MemoryPermit>,
    /// Whether it had to wait for a pod.
    pub(super) held: bool,
    /// How often it was sent again.
    pub(super) resends: u32,
    /// If it is sampled.
    pub(super) trace: Option<Box<RequestTrace>>,
}

// === impl ResponseGuard ===

impl response_body::ResponseGuard for ResponseGuard {
    fn end(self, failed: bool) {
        if let Self::Running(RunningRequest { observed: Some(mut observed), .. }) = self {
            observed.complete(failed);
        }
    }
}

// === impl PendingRequest ===

impl PendingRequest {
    /// The pod's response, with what the request holds until the response has ended.
    pub(super) fn into_response(
        self: Box<Self>,
        response: Response<ResponseBody>,
        slot: SlotPermit,
    ) -> Response<HandlerBody> {
        let running = RunningRequest {
            _slot: slot,
            observed: self.observed,
            _counted: self.counted,
            _memory: self.memory,
        };
        into_response(response, self.upgrade, ResponseGuard::Running(running), self.timer)
    }

    /// The moment at which it is sent to a pod; `None` if nothing is measured from there.
    pub(super) fn begin_forward(&mut self) -> Option<Instant> {
        if !self.held && self.trace.is_none() {
            return None;
        }
        let now = Instant::now();
        if let Some(trace) = &mut self.trace {
            trace.forward(now, self.held, &mut self.head.headers);
        }
        Some(now)
    }

    /// Takes the time that it was held from the timeout of a call.
    pub(super) fn reduce_call_timeout(&mut self) -> Result<(), Rejection> {
        if !self.held {
            return Ok(());
        }
        Ok(grpc::reduce_timeout(&mut self.head.headers, self.call_deadline, Instant::now())?)
    }

    /// The pod did not take it.
    pub(super) fn hold_again(&mut self) {
        self.held = true;
        if let Some(trace) = &mut self.trace {
            trace.hold_again();
        }
    }

    /// Ends its trace with the waiting page.
    pub(super) fn end_with_waiting_page(&mut self) {
        if let Some(trace) = &mut self.trace {
            trace.fail(StatusCode::SERVICE_UNAVAILABLE, "WaitingPage");
        }
    }

    /// Ends its trace with this error, which is returned.
    pub(super) fn fail(&mut self, error: impl Into<RequestError>) -> RequestError {
        let error = error.into();
        if let Some(trace) = &mut self.trace {
            let (status, reason) = error_response::status_and_reason(&error);
            trace.fail(status, reason);
        }
        error
    }

    /// Names a pod of the workload that has waited for it, perhaps for itself.
    pub(super) fn name_own(&self, workload: &WorkloadThrottler, rejection: Rejection) -> Rejection {
        match rejection {
            Rejection::WakeTimeout { after } if workload.has_pod_at(self.addresses.peer_ip()) => {
                Rejection::OwnRequest { after }
            }
            rejection => rejection,
        }
    }

    /// The attempt ended with the pod's response.
    pub(super) fn observe_response(&mut self, status: StatusCode) {
        if let Some(observed) = &mut self.observed {
            observed.respond(status);
        }
    }

    /// The attempt ended without a response.
    pub(super) fn observe_failure(&mut self, error: &ForwardError) {
        let Some(mut observed) = self.observed.take() else { return };
        match error {
            ForwardError::Unreachable(_)
            | ForwardError::NoFreeStream(_)
            | ForwardError::Unprocessed(_)
            | ForwardError::NoPort
            | ForwardError::OtherPod => observed.fail(false),
            // The client's failure, as if it had left.
            ForwardError::RequestBodyFailed => {}
            ForwardError::Unanswered(_)
            | ForwardError::Closed(_)
            | ForwardError::Failed(_)
            | ForwardError::TimedOut(_)
            | ForwardError::BadResponse(_) => observed.fail(true),
        }
    }
}

/// The pod's response with its body, or with the tunnel of an accepted upgrade. `guard` is dropped
/// at the end of either.
pub(super) fn into_response(
    mut response: Response<ResponseBody>,
    upgrade: Option<Upgrade>,
    guard: ResponseGuard,
    timer: RequestTimer,
) -> Response<HandlerBody> {
    let guard = match upgrade {
        Some(upgrade) => upgrade.tunnel(&mut response, guard, timer.idle_timeout()),
        None => Some(guard),
    };
    match guard {
        Some(guard) => {
            TimedResponseBody::wrap(response, Some(guard), timer).map(|body| Either::Left(Either::Left(body)))
        }
        // The tunnel holds the guard; a 101 has no body.
        None => response.map(|_| Either::Right(Either::Left(Full::default()))),
    }
}

/// The body, which reports its frames to the timer.
pub(super) fn held_body(body: IncomingBody, timer: &RequestTimer) -> HeldBody<RequestBody> {
    let mut body = RequestBody::from(body);
    body.report_to(timer.activity());
    HeldBody::new(body)
}
