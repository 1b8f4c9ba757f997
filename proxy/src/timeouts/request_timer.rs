//! Timeouts of a request, with Knative's meaning.
//!
//! ```text
//!  arrival ──────────────► head of the response ────────────► end of its body
//!  ├─ response start ──────┤                                  │
//!  ├─ total ──────────────────────────────────────────────────┤
//!  ├─ idle ─┤ and again from each byte, in either direction
//! ```
//!
//! At a sidecar all count from the request's arrival, so the wait for a slot or for the app's start
//! is included. At an activator they count from the time at which the request is sent to a pod,
//! because the time before that has a bound of its own. A request without a response in time gets
//! 504. A response that has begun is cut, so that half a body never looks complete.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;

use super::timeout_list::{TimeoutEntry, TimeoutList};

/// The timeouts of every request; `None` means no timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    total: Option<Duration>,
    response_start: Option<Duration>,
    idle: Option<Duration>,
}

/// The timeout that a request exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeoutExceeded {
    /// Of the whole request.
    #[error("the request did not complete within {0:?} (timeout)")]
    Total(Duration),
    /// Of the head of the response.
    #[error("the app did not start its response within {0:?} (response-start-timeout)")]
    ResponseStart(Duration),
    /// Of silence in both directions.
    #[error("no byte was sent or received for {0:?} (idle-timeout)")]
    Idle(Duration),
}

/// Creates the timers of one worker's requests. Without any timeout the timers do nothing.
#[derive(Clone, Debug)]
pub struct RequestTimers(Option<Arc<TimerSettings>>);

#[derive(Debug)]
struct TimerSettings {
    timeouts: Timeouts,
    list: TimeoutList,
}

/// Measures one request against the timeouts.
#[derive(Debug)]
pub struct RequestTimer {
    /// `None` without any timeout.
    settings: Option<Arc<TimerSettings>>,
    arrived: Instant,
    response_started: bool,
    /// `None` without an idle timeout.
    activity: Option<Arc<LastActivity>>,
    /// Entry in the timeout list, from the first wait on.
    entry: Option<TimeoutEntry>,
}

/// Time of the last byte in either direction.
#[derive(Debug)]
pub struct LastActivity {
    arrived: Instant,
    /// Milliseconds after the arrival.
    last: AtomicU64,
}

// === impl Timeouts ===

impl Timeouts {
    /// Zero means no timeout. A response start timeout that is not below the total one has no
    /// effect.
    pub fn new(total: Duration, response_start: Duration, idle: Duration) -> Self {
        let set = |timeout: Duration| (!timeout.is_zero()).then_some(timeout);
        let total = set(total);
        let shorter = |start: &Duration| total.is_none_or(|total| *start < total);
        Self { total, response_start: set(response_start).filter(shorter), idle: set(idle) }
    }

    /// The longest time without a byte, which bounds connections that are not HTTP as well.
    pub fn idle(&self) -> Option<Duration> {
        self.idle
    }

    fn shortest(&self) -> Option<Duration> {
        [self.total, self.response_start, self.idle].into_iter().flatten().min()
    }
}

// === impl RequestTimers ===

impl RequestTimers {
    pub fn new(timeouts: Timeouts) -> Self {
        let list = timeouts.shortest().map(TimeoutList::new);
        Self(list.map(|list| Arc::new(TimerSettings { timeouts, list })))
    }

    /// The timer of a request that arrived at this time.
    pub fn start(&self, arrived: Instant) -> RequestTimer {
        let settings = self.0.clone();
        let idle = settings.as_ref().and_then(|settings| settings.timeouts.idle);
        let activity = idle.map(|_| Arc::new(LastActivity { arrived, last: AtomicU64::new(0) }));
        RequestTimer { settings, arrived, response_started: false, activity, entry: None }
    }
}

// === impl RequestTimer ===

impl RequestTimer {
    /// A timer without any timeout.
    pub fn unlimited(now: Instant) -> Self {
        Self { settings: None, arrived: now, response_started: false, activity: None, entry: None }
    }

    /// Counts from `now`, because the request is sent only now, or again. Its activity continues.
    pub fn restart(&mut self, now: Instant) {
        (self.arrived, self.response_started) = (now, false);
        self.touch();
    }

    /// Drives `response`, which ends with the head of the response, until it ends or a timeout is
    /// exceeded.
    ///
    /// The caller pins it, because a future passed by value has its memory twice, before and after
    /// it is pinned.
    pub async fn within<T, E: From<TimeoutExceeded>>(
        &mut self,
        mut response: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Result<T, E> {
        let result = std::future::poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Pending => self.poll_exceeded(cx).map(|timeout| Err(timeout.into())),
            ready => ready,
        })
        .await;
        self.response_started = true;
        self.touch();
        result
    }

    /// Ready once a timeout is exceeded.
    fn poll_exceeded(&mut self, cx: &mut Context<'_>) -> Poll<TimeoutExceeded> {
        match &self.entry {
            None => self.schedule(cx.waker()),
            Some(entry) if entry.poll_due(cx).is_pending() => {}
            // Activity may have moved the due time.
            Some(_) => match self.exceeded() {
                Some(timeout) => return Poll::Ready(timeout),
                None => self.schedule(cx.waker()),
            },
        }
        Poll::Pending
    }

    /// Schedules a wake of `waker` for the time at which a timeout may be exceeded.
    pub fn schedule(&mut self, waker: &Waker) {
        let (Some(settings), Some((due, _))) = (&self.settings, self.next_due()) else { return };
        match &self.entry {
            Some(entry) => entry.reset(due, waker),
            None => self.entry = Some(settings.list.insert(due, waker)),
        }
    }

    /// Whether any timeout is set.
    pub fn has_timeouts(&self) -> bool {
        self.settings.is_some()
    }

    /// The exceeded timeout, if any.
    pub fn exceeded(&self) -> Option<TimeoutExceeded> {
        let (due, timeout) = self.next_due()?;
        (due <= Instant::now()).then_some(timeout)
    }

    /// Records that a byte was sent or received.
    pub fn touch(&self) {
        if let Some(activity) = &self.activity {
            activity.touch();
        }
    }

    /// The last activity, for the request body; `None` without an idle timeout.
    pub fn activity(&self) -> Option<Arc<LastActivity>> {
        self.activity.clone()
    }

    /// The idle timeout, the only one that applies to an upgraded connection.
    pub fn idle_timeout(&self) -> Option<Duration> {
        self.settings.as_ref()?.timeouts.idle
    }

    /// The timeout that ends first, and its time.
    fn next_due(&self) -> Option<(Instant, TimeoutExceeded)> {
        let Timeouts { total, response_start, idle } = self.settings.as_ref()?.timeouts;
        let total = total.map(|total| (self.arrived + total, TimeoutExceeded::Total(total)));
        let start = response_start.filter(|_| !self.response_started);
        let start = start.map(|start| (self.arrived + start, TimeoutExceeded::ResponseStart(start)));
        let last = self.activity.as_ref().map_or(self.arrived, |activity| activity.last());
        let idle = idle.map(|idle| (last + idle, TimeoutExceeded::Idle(idle)));
        [total, start, idle].into_iter().flatten().min_by_key(|(due, _)| *due)
    }
}

// === impl LastActivity ===

impl LastActivity {
    /// Records that a byte was sent or received now.
    pub fn touch(&self) {
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
    fn ignores_response_start_timeout_that_is_not_below_the_total() {
        let timeouts = |total, start| {
            let of = Duration::from_secs;
            Timeouts::new(of(total), of(start), Duration::ZERO).response_start.map(|start| start.as_secs())
        };
        assert_eq!(timeouts(300, 300), None);
        assert_eq!(timeouts(300, 299), Some(299));
        assert_eq!(timeouts(0, 300), Some(300));
        assert_eq!(timeouts(300, 0), None);
    }

    #[test]
    fn creates_no_list_without_timeouts() {
        let none = Timeouts::new(Duration::ZERO, Duration::ZERO, Duration::ZERO);
        assert!(RequestTimers::new(none).0.is_none());
    }
}
