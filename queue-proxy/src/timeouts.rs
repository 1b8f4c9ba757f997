//! Timeouts: how long a request may take, as Knative has it.
//!
//! ```text
//!  arrival ──────────────► head of the response ────────────► end of its body
//!  ├─ response start ──────┤                                  │
//!  ├─ whole ──────────────────────────────────────────────────┤
//!  ├─ idle ─┤ and again from each byte, either way
//! ```
//!
//! All count from the request's arrival here, so waiting for a slot or for the app's start is part of them. A request that
//! is not answered in time gets 504; one whose response has begun is cut, so that half a body never looks whole.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use crate::deadlines::{Deadline, Deadlines};
use crate::error_response::Refusal;

/// The bounds of every request; `None` is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    whole: Option<Duration>,
    response_start: Option<Duration>,
    idle: Option<Duration>,
}

/// What a request took too long for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Timeout {
    #[error("the request did not end within {0:?}")]
    Whole(Duration),
    #[error("the app did not begin to answer within {0:?}")]
    ResponseStart(Duration),
    #[error("nothing was sent or received for {0:?}")]
    Idle(Duration),
}

/// Measures the requests of one worker; nothing if no timeout is set.
#[derive(Clone, Debug)]
pub(crate) struct Stopwatches(Option<Arc<Bounds>>);

#[derive(Debug)]
struct Bounds {
    timeouts: Timeouts,
    deadlines: Deadlines,
}

/// The time of one request.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    bounds: Option<Arc<Bounds>>,
    arrived: Instant,
    answered: bool,
    activity: Option<Arc<Activity>>,
    /// The place among those who wait, from the first wait on.
    deadline: Option<Deadline>,
}

/// When something was last sent or received.
#[derive(Debug)]
pub(crate) struct Activity {
    arrived: Instant,
    /// Milliseconds after the arrival.
    last: AtomicU64,
}

// === impl Timeouts ===

impl Timeouts {
    /// Zero is none. The start of a response has no bound of its own unless that is the narrower one.
    pub(crate) fn new(whole: Duration, response_start: Duration, idle: Duration) -> Self {
        let set = |timeout: Duration| (!timeout.is_zero()).then_some(timeout);
        let whole = set(whole);
        let narrower = |start: &Duration| whole.is_none_or(|whole| *start < whole);
        Self { whole, response_start: set(response_start).filter(narrower), idle: set(idle) }
    }

    fn shortest(&self) -> Option<Duration> {
        [self.whole, self.response_start, self.idle].into_iter().flatten().min()
    }
}

// === impl Stopwatches ===

impl Stopwatches {
    pub(crate) fn new(timeouts: Timeouts) -> Self {
        let deadlines = timeouts.shortest().map(Deadlines::new);
        Self(deadlines.map(|deadlines| Arc::new(Bounds { timeouts, deadlines })))
    }

    /// For a request that has just arrived.
    pub(crate) fn start(&self, arrived: Instant) -> Stopwatch {
        let bounds = self.0.clone();
        let idle = bounds.as_ref().and_then(|bounds| bounds.timeouts.idle);
        let activity = idle.map(|_| Arc::new(Activity { arrived, last: AtomicU64::new(0) }));
        Stopwatch { bounds, arrived, answered: false, activity, deadline: None }
    }
}

// === impl Stopwatch ===

impl Stopwatch {
    /// Gives up `answer`, the head of the response, when its time is over.
    ///
    /// Pinned by the caller: a future given by value is kept twice, before and after it is pinned.
    pub(crate) async fn within<T>(
        &mut self,
        mut answer: Pin<&mut impl Future<Output = Result<T, Refusal>>>,
    ) -> Result<T, Refusal> {
        let answered = std::future::poll_fn(|cx| match answer.as_mut().poll(cx) {
            Poll::Pending => self.poll_over(cx).map(|timeout| Err(timeout.into())),
            answered => answered,
        })
        .await;
        self.answered = true;
        self.active();
        answered
    }

    /// Ready once the time is over; the caller has nothing else to do until then.
    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<Timeout> {
        match &self.deadline {
            None => self.wait(cx.waker()),
            Some(deadline) if deadline.poll_over(cx).is_pending() => {}
            // What was waited for may have changed since.
            Some(_) => match self.over() {
                Some(timeout) => return Poll::Ready(timeout),
                None => self.wait(cx.waker()),
            },
        }
        Poll::Pending
    }

    /// Has `waker` woken when the time may be over. A request's task waits by [`within`](Self::within).
    pub(crate) fn wait(&mut self, waker: &Waker) {
        let (Some(bounds), Some((due, _))) = (&self.bounds, self.due()) else { return };
        match &self.deadline {
            Some(deadline) => deadline.reset(due, waker),
            None => self.deadline = Some(bounds.deadlines.at(due, waker)),
        }
    }

    /// Whether any timeout is set.
    pub(crate) fn has_bounds(&self) -> bool {
        self.bounds.is_some()
    }

    /// What the request took too long for, if it did.
    pub(crate) fn over(&self) -> Option<Timeout> {
        let (due, timeout) = self.due()?;
        (due <= Instant::now()).then_some(timeout)
    }

    /// Something was sent or received.
    pub(crate) fn active(&self) {
        if let Some(activity) = &self.activity {
            activity.note();
        }
    }

    /// Where others note what they send and receive, if that matters.
    pub(crate) fn activity(&self) -> Option<Arc<Activity>> {
        self.activity.clone()
    }

    /// The longest silence, which is all that bounds a connection that is no longer one of requests.
    pub(crate) fn idle(&self) -> Option<Duration> {
        self.bounds.as_ref()?.timeouts.idle
    }

    /// The first end in sight.
    fn due(&self) -> Option<(Instant, Timeout)> {
        let Timeouts { whole, response_start, idle } = self.bounds.as_ref()?.timeouts;
        let whole = whole.map(|whole| (self.arrived + whole, Timeout::Whole(whole)));
        let start = response_start.filter(|_| !self.answered);
        let start = start.map(|start| (self.arrived + start, Timeout::ResponseStart(start)));
        let last = self.activity.as_ref().map_or(self.arrived, |activity| activity.last());
        let idle = idle.map(|idle| (last + idle, Timeout::Idle(idle)));
        [whole, start, idle].into_iter().flatten().min_by_key(|(due, _)| *due)
    }
}

// === impl Activity ===

impl Activity {
    /// Something was sent or received now.
    pub(crate) fn note(&self) {
        let after = u64::try_from(self.arrived.elapsed().as_millis()).unwrap_or_default();
        self.last.store(after, Ordering::Relaxed);
    }

    fn last(&self) -> Instant {
        self.arrived + Duration::from_millis(self.last.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_start_counts_only_if_it_is_the_narrower() {
        let timeouts = |whole, start| {
            let of = Duration::from_secs;
            Timeouts::new(of(whole), of(start), Duration::ZERO).response_start.map(|start| start.as_secs())
        };
        assert_eq!(timeouts(300, 300), None);
        assert_eq!(timeouts(300, 299), Some(299));
        assert_eq!(timeouts(0, 300), Some(300));
        assert_eq!(timeouts(300, 0), None);
    }

    #[test]
    fn without_timeouts_there_is_no_list() {
        let none = Timeouts::new(Duration::ZERO, Duration::ZERO, Duration::ZERO);
        assert!(Stopwatches::new(none).0.is_none());
    }
}
