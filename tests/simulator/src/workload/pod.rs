//! Pod: the app behind its queue-proxy, which limits, queues, counts and reports.
//!
//! Requests come from clients (Serve) and from activators (Proxy). A terminating pod finishes its
//! requests, and those that still arrive until the new slices have reached all nodes.

use autoscaler::routing::breaker::ConcurrencyLimit;
use autoscaler::stats::{RequestStats, Stat};
use learning::{AppSecond, CpuReading, PodSecond};

use crate::clock::{Time, instant, unix, whole_second};
use crate::workload::app::{App, AppModel};
use crate::workload::hold_queue::HoldQueue;
use crate::workload::request::Request;

/// Requests that may wait in the queue-proxy for each one that may run.
const QUEUE_FACTOR: usize = 10;

/// A pod's number, in order of creation.
pub type PodId = u64;

#[derive(Debug)]
pub struct Pod {
    phase: PodPhase,
    limit: ConcurrencyLimit,
    running: usize,
    most_running: usize,
    queue: HoldQueue,
    /// Since when no request runs.
    idle_since: Option<Time>,
    stats: RequestStats,
    last_stat: Option<Stat>,
    app: App,
    /// Ends of requests in the present second.
    ended: AppSecond,
    /// The last readings that were not reported yet, as shares of the limits.
    memory: Option<f64>,
    cpu: Option<CpuReading>,
    last_second: Option<PodSecond>,
}

/// Phase of a pod's life cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not ready yet.
    Starting,
    /// Ready, so it is in the slices.
    Ready {
        /// Time of the transition.
        since: Time,
    },
    /// Scheduled for deletion.
    Terminating,
}

/// Result of the admission of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The app works on it.
    Running,
    /// It waits in the queue-proxy.
    Waiting,
    /// The queue is full.
    Refused,
}

// === impl Pod ===

impl Pod {
    /// A pod that was just created.
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
            app: App::default(),
            ended: AppSecond::default(),
            memory: None,
            cpu: None,
            last_second: None,
        }
    }

    /// Marks a starting pod as ready.
    pub fn become_ready(&mut self, now: Time) {
        if self.phase == PodPhase::Starting {
            self.phase = PodPhase::Ready { since: now };
            self.idle_since = Some(now);
            // The first period begins with a whole second, as all later ones do.
            self.stats = RequestStats::new(instant(whole_second(now)));
        }
    }

    /// Starts termination.
    pub fn terminate(&mut self) {
        self.phase = PodPhase::Terminating;
    }

    /// The current phase.
    pub fn phase(&self) -> PodPhase {
        self.phase
    }

    /// Whether the pod should receive new requests.
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, PodPhase::Ready { .. })
    }

    /// Admits, queues or refuses a request.
    pub fn accept(&mut self, request: Request, now: Time) -> Admission {
        if self.phase == PodPhase::Starting {
            return Admission::Refused;
        }
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

    /// Ends a request. Returns the queued request that starts instead.
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

    /// Kills the app. Returns the requests that fail with it, those in the queue included. The pod
    /// is not ready until it becomes so again.
    pub fn kill(&mut self, now: Time) -> Vec<Request> {
        let mut failed = self.app.kill(now);
        failed.extend(std::iter::from_fn(|| self.queue.pop()));
        for request in &failed {
            self.stats.request_out(instant(now), request.activator.is_some());
        }
        self.ended.completions += failed.len() as f64;
        self.ended.errors += failed.len() as f64;
        self.running = 0;
        self.idle_since = None;
        if self.is_ready() {
            self.phase = PodPhase::Starting;
        }
        failed
    }

    /// Counts the end of a request that was in the app for `time`.
    pub fn record_end(&mut self, time: Time, missed: bool) {
        self.ended.completions += 1.0;
        self.ended.seconds += time.as_secs_f64();
        self.ended.misses += f64::from(u8::from(missed));
    }

    /// Reads the share of the memory limit in use now, and that of the CPU limit which was used in
    /// this period.
    pub fn read_resources(&mut self, app: AppModel, period: Time, now: Time) {
        self.memory = app.memory_share(self.running);
        self.cpu = app.cpu_limit().map(|cores| CpuReading {
            share: self.app.processor.take_usage(cores, now) / (cores * period.as_secs_f64()),
            from: unix(now.saturating_sub(period)),
            to: unix(now),
        });
    }

    /// Reports the last readings with the last second.
    pub fn report_resources(&mut self) {
        if let Some(second) = &mut self.last_second {
            (second.memory, second.cpu) = (self.memory.take(), self.cpu.take());
        }
    }

    /// The last whole second, for learning; `None` in the first, and while the pod is not ready.
    pub fn last_second(&self) -> Option<PodSecond> {
        self.last_second.filter(|_| self.is_ready())
    }

    /// The app in the pod.
    pub fn app_mut(&mut self) -> &mut App {
        &mut self.app
    }

    /// Removes and returns a queued request, after its client timeout.
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
        let age =
            if let PodPhase::Ready { since } = self.phase { now.saturating_sub(since) } else { Time::ZERO };
        self.last_second = Some(PodSecond {
            age,
            concurrency: report.average_concurrency,
            arrivals: per_second(report.request_count),
            app: Some(std::mem::take(&mut self.ended)),
            memory: None,
            cpu: None,
        });
        self.last_stat = Some(Stat {
            average_concurrent_requests: report.average_concurrency,
            average_proxied_concurrent_requests: report.average_proxied_concurrency,
            request_count: per_second(report.request_count),
            proxied_request_count: per_second(report.proxied_request_count),
            ..Stat::default()
        });
    }

    /// The stat that a scrape reads: the last whole period; `None` in the first.
    pub fn last_stat(&self) -> Option<&Stat> {
        self.last_stat.as_ref()
    }

    /// Requests in the app.
    pub fn running(&self) -> usize {
        self.running
    }

    /// The largest number of requests that were in the app at a time.
    pub fn most_running(&self) -> usize {
        self.most_running
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Since when the pod is ready and without requests.
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
