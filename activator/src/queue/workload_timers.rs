//! WorkloadTimers: the timers of one workload's requests, in each worker.
//!
//! Of a workload with a sidecar they have no timeout, because its sidecars apply the pods' own.

use std::sync::Arc;

use arc_swap::ArcSwap;
use proxy::timeouts::request_timer::{RequestTimer, RequestTimers, Timeouts};
use tokio::time::Instant;

/// Starts a timer for each request.
#[derive(Debug)]
pub struct WorkloadTimers {
    workers: usize,
    current: ArcSwap<TimersByWorker>,
}

#[derive(Debug)]
struct TimersByWorker {
    timeouts: Timeouts,
    /// Of each worker, because its requests stay on one thread. Empty without a timeout.
    timers: Vec<RequestTimers>,
}

// === impl WorkloadTimers ===

impl WorkloadTimers {
    /// Timers with these timeouts, for this number of workers.
    pub fn new(timeouts: Timeouts, workers: usize) -> Self {
        Self { workers, current: ArcSwap::from_pointee(TimersByWorker::new(timeouts, workers)) }
    }

    /// Sets the timeouts of later requests.
    pub fn set(&self, timeouts: Timeouts) {
        if self.current.load().timeouts != timeouts {
            self.current.store(Arc::new(TimersByWorker::new(timeouts, self.workers)));
        }
    }

    /// The timer of a request on this worker.
    pub fn start(&self, worker: usize, now: Instant) -> RequestTimer {
        let current = self.current.load();
        current.timers.get(worker).map_or_else(|| RequestTimer::unlimited(now), |timers| timers.start(now))
    }
}

// === impl TimersByWorker ===

impl TimersByWorker {
    fn new(timeouts: Timeouts, workers: usize) -> Self {
        let workers = if timeouts == Timeouts::default() { 0 } else { workers };
        Self { timeouts, timers: (0..workers).map(|_| RequestTimers::new(timeouts)).collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn later_requests_have_the_new_timeouts() {
        let timers = WorkloadTimers::new(Timeouts::default(), 2);
        let now = Instant::now();
        let limited = || [0, 1].map(|worker| timers.start(worker, now).has_timeouts());
        assert_eq!(limited(), [false, false]);
        timers.set(Timeouts::new(Duration::from_secs(1), Duration::ZERO, Duration::ZERO));
        assert_eq!(limited(), [true, true]);
        timers.set(Timeouts::default());
        assert_eq!(limited(), [false, false]);
    }
}
