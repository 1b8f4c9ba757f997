//! Pod: the app behind its sidecar, which limits, queues, counts and reports.
//!
//! Requests come from clients (Serve) and from activators (Proxy). A pod that is told to go finishes what it has, and what
//! still comes until everybody knows.

use autoscaler::routing::breaker::ConcurrencyLimit;
use autoscaler::stats::{RequestStats, Stat};

use crate::clock::{Time, instant, whole_second};
use crate::workload::hold_queue::HoldQueue;
use crate::workload::request::Request;

/// Requests that may wait in a sidecar for each one that may run.
const QUEUE_FACTOR: usize = 10;

/// A pod's name: the order of creation.
pub type PodId = u64;

/// One pod.
#[derive(Debug)]
pub struct Pod {
    phase: PodPhase,
    limit: ConcurrencyLimit,
    running: usize,
    most_running: usize,
    queue: HoldQueue,
    /// Since when it has nothing to do.
    idle_since: Option<Time>,
    stats: RequestStats,
    last_stat: Option<Stat>,
}

/// Where a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not able to answer yet.
    Starting,
    /// In the slices, since then.
    Ready {
        /// Since when.
        since: Time,
    },
    /// Told to go.
    Terminating,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The app works on it.
    Running,
    /// It waits in the sidecar.
    Waiting,
    /// The sidecar's queue is full.
    Refused,
}

// === impl Pod ===

impl Pod {
    /// A pod that has just been created.
    pub fn new(container_concurrency: u32, now: Time) -> Self {
        Self {
            phase: PodPhase::Starting,
            limit: ConcurrencyLimit::of_container_concurrency(container_concurrency),
            running: 0,
            most_running: 0,
            queue: HoldQueue::new(QUEUE_FACTOR * container_concurrency as usize),
            idle_since: None,
            stats: RequestStats::new(instant(now)),
            last_stat: None,
        }
    }

    /// The app answers.
    pub fn become_ready(&mut self, now: Time) {
        if self.phase == PodPhase::Starting {
            self.phase = PodPhase::Ready { since: now };
            self.idle_since = Some(now);
            // Its first period began with the second it lies in.
            self.stats = RequestStats::new(instant(whole_second(now)));
        }
    }

    /// Somebody wants it gone.
    pub fn terminate(&mut self) {
        self.phase = PodPhase::Terminating;
    }

    /// Where it is in its life.
    pub fn phase(&self) -> PodPhase {
        self.phase
    }

    /// Whether new requests should come here.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, PodPhase::Ready { .. })
    }

    /// Takes a request in.
    pub fn accept(&mut self, request: Request, now: Time) -> Admission {
        let accepted = if self.has_room() {
            self.run();
            Admission::Running
        } else if self.queue.push(request) {
            Admission::Waiting
        } else {
            return Admission::Refused;
        };
        self.stats.request_in(instant(now), request.activator.is_some());
        accepted
    }

    /// Ends a request, and gives the next one that runs now.
    pub fn finish(&mut self, request: &Request, now: Time) -> Option<Request> {
        self.running -= 1;
        self.stats.request_out(instant(now), request.activator.is_some());
        if self.running == 0 {
            self.idle_since = Some(now);
        }
        let next = self.queue.pop()?;
        self.run();
        Some(next)
    }

    /// A client gave up; its request, if it was still waiting here.
    pub fn remove(&mut self, id: u64, now: Time) -> Option<Request> {
        let request = self.queue.remove(id)?;
        self.stats.request_out(instant(now), request.activator.is_some());
        Some(request)
    }

    /// Ends a reporting period.
    pub fn end_period(&mut self, now: Time) {
        if self.phase == PodPhase::Starting {
            return;
        }
        let report = self.stats.report(instant(now));
        let seconds = report.period.as_secs_f64();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        self.last_stat = Some(Stat {
            average_concurrent_requests: report.average_concurrency,
            average_proxied_concurrent_requests: report.average_proxied_concurrency,
            request_count: per_second(report.request_count),
            proxied_request_count: per_second(report.proxied_request_count),
            ..Stat::default()
        });
    }

    /// What the collector reads: the last whole period; `None` in the first.
    pub fn last_stat(&self) -> Option<&Stat> {
        self.last_stat.as_ref()
    }

    /// Requests that the app works on.
    pub fn running(&self) -> usize {
        self.running
    }

    /// The most there ever were.
    pub fn most_running(&self) -> usize {
        self.most_running
    }

    /// Requests that wait in the sidecar.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Since when it could work and has nothing to do.
    pub fn idle_since(&self) -> Option<Time> {
        self.idle_since.filter(|_| self.is_ready())
    }

    fn has_room(&self) -> bool {
        match self.limit {
            ConcurrencyLimit::Unlimited => true,
            ConcurrencyLimit::AtMost(limit) => self.running < limit,
        }
    }

    fn run(&mut self) {
        self.running += 1;
        self.idle_since = None;
        self.most_running = self.most_running.max(self.running);
    }
}
