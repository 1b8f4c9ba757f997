//! RequestTrace: the trace of one request, from its head to its response head or failure.
//!
//! It becomes spans when it is dropped, so that a client that disconnects ends its trace as well.
//! The trace ends before the response body does, because a stream may take hours.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::reports::cold_start::ColdStartTrace;
use crate::traces::ended_trace::{EndedTrace, TraceOutcome, TracedRequest};
use crate::traces::parent_context::{self, TRACEPARENT};
use crate::traces::spans;
use crate::traces::trace_ids::TraceIds;
use crate::traces::trace_sink::TraceSink;

/// The trace of a sampled request.
#[derive(Debug)]
pub struct RequestTrace {
    sink: Arc<TraceSink>,
    ids: TraceIds,
    request: TracedRequest,
    admission: Admission,
    /// The request waited for a pod before `forwarded`.
    held: bool,
    /// When it was sent to the pod that has it now.
    forwarded: Option<Instant>,
    outcome: TraceOutcome,
}

/// Whether the rate bound had place for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    /// Its request was not held yet.
    Pending,
    Admitted,
    Refused,
}

// === impl RequestTrace ===

impl RequestTrace {
    /// A trace of a request that has just arrived. If it is not `admitted`, it is exported only if
    /// the request is held.
    pub(super) fn new(sink: Arc<TraceSink>, ids: TraceIds, request: TracedRequest, admitted: bool) -> Self {
        let admission = if admitted { Admission::Admitted } else { Admission::Pending };
        let outcome = TraceOutcome::Cancelled;
        Self { sink, ids, request, admission, held: false, forwarded: None, outcome }
    }

    /// The request is sent to a pod now, `held` before or not. The pod's spans become children of
    /// ours.
    pub fn forward(&mut self, now: Instant, held: bool, headers: &mut HeaderMap) {
        self.forwarded = Some(now);
        self.held |= held;
        if self.is_admitted(now)
            && let Some(value) = parent_context::header(self.ids.trace, self.ids.forward, self.ids.flags)
        {
            headers.insert(TRACEPARENT, value);
        }
    }

    /// The pod did not take the request, which is held again.
    pub fn hold_again(&mut self) {
        self.forwarded = None;
    }

    /// The request failed with this response.
    pub fn fail(&mut self, status: StatusCode, reason: &'static str) {
        self.outcome = TraceOutcome::Failed { status, reason };
    }

    /// The pod responded.
    pub fn answer(mut self: Box<Self>, status: StatusCode, pod: IpAddr, phases: ColdStartTrace) {
        self.outcome = TraceOutcome::Answered { status, pod, phases };
    }

    fn is_admitted(&mut self, now: Instant) -> bool {
        if self.admission == Admission::Pending && self.held {
            self.admission = if self.sink.admit(now) { Admission::Admitted } else { Admission::Refused };
        }
        self.admission == Admission::Admitted
    }
}

impl Drop for RequestTrace {
    fn drop(&mut self) {
        let now = Instant::now();
        // A request that was not forwarded has ended in the hold.
        self.held |= self.forwarded.is_none();
        if self.is_admitted(now) {
            let (ids, request, outcome) = (&self.ids, &self.request, &self.outcome);
            let ended = EndedTrace { ids, request, held: self.held, forwarded: self.forwarded, outcome };
            self.sink.put(spans::of(&ended, now));
        }
    }
}
