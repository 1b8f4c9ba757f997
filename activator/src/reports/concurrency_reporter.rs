//! ConcurrencyReporter: reports the concurrency of every workload once a second, and pokes.
//!
//! Three reports go out ahead of the periodic one, so that pods start earlier:
//! - the *poke*: the first request of an idle workload, at once, as concurrency 1 and count 1;
//! - the *burst*: the requests that arrived within 100 ms after the poke, so that a burst gets all
//!   of its pods at once;
//! - the first half of each second while the panic window grows, so that pods do not wait for the
//!   second half.
//!
//! The periodic report is also sent without requests: a receiver concludes from it, and from
//! nothing else, that there are none. Every report goes to the [`StatReporter`], which never
//! blocks. The counts are those of [`RequestCounter`].

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::history::FirstRequest;
use autoscaler::stats::{
    ActivatorReport, CarriedWorkloads, FirstRequestReport, PodStat, SlowWake, Stat, StatMessage, WakeReport,
};
use component_base::clock;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::reports::pod_observer::PodPeriod;
use crate::reports::request_counter::{CountedRequest, EarlyReport, RequestCounter};
use crate::reports::stat_reporter::StatReporter;

const HALF_SECOND: Duration = Duration::from_millis(500);

/// Shortest wait for the next whole second. A timer that fired early must not report a period of no
/// length.
const SHORTEST_PERIOD_MS: u64 = 100;

/// Wait between the poke and the report of its burst. A client that opens a thousand connections
/// takes nearly as long.
const BURST_DELAY: Duration = Duration::from_millis(100);

/// Slow wakes that wait for the next report. More are only logged.
const MAX_SLOW_WAKES: usize = 64;
/// Wakes that wait for the next report. More are only in the histograms.
const MAX_WAKES: usize = 256;
/// First requests that wait for the next report. More are not reported.
const MAX_FIRST_REQUESTS: usize = 256;

/// The reported workloads, and the outlet for their reports.
#[derive(Debug)]
pub struct ConcurrencyReporter {
    activator: String,
    reported: Mutex<HashMap<Key, Arc<RequestCounter>>>,
    slow_wakes: Mutex<Vec<SlowWake>>,
    wakes: Mutex<Vec<WakeReport>>,
    first_requests: Mutex<Vec<FirstRequestReport>>,
    bursts: PendingBursts,
    outlet: StatReporter,
}

/// Workloads that poked, and when to report their bursts. At most one entry a workload: the next
/// poke needs an idle second.
#[derive(Debug, Default)]
struct PendingBursts {
    waiting: Mutex<VecDeque<(Instant, Arc<RequestCounter>)>>,
    added: Notify,
}

// === impl ConcurrencyReporter ===

impl ConcurrencyReporter {
    /// Reports to `outlet` in the name of the pod `activator`.
    pub fn new(activator: String, outlet: StatReporter) -> Self {
        Self {
            activator,
            reported: Mutex::default(),
            slow_wakes: Mutex::default(),
            wakes: Mutex::default(),
            first_requests: Mutex::default(),
            bursts: PendingBursts::default(),
            outlet,
        }
    }

    /// Counts a request; the first of an idle workload pokes, and is reported as `describe` returns
    /// it.
    pub fn request_in(
        &self,
        counter: &Arc<RequestCounter>,
        describe: impl FnOnce() -> Option<FirstRequest>,
    ) -> CountedRequest {
        let now = Instant::now();
        if let Some(sent) = counter.enter(now) {
            self.first_request(counter.key(), describe);
            self.reported.lock().insert(counter.key().clone(), counter.clone());
            self.outlet.poke(self.early_push(counter, EarlyReport::POKE), sent);
            self.bursts.add(counter, now);
        }
        CountedRequest::new(counter.clone())
    }

    /// The workloads with requests that have not ended.
    pub fn carried(&self) -> CarriedWorkloads {
        let reported = self.reported.lock();
        let carried = reported.values().filter(|counter| counter.in_flight() > 0);
        CarriedWorkloads::new(carried.map(|counter| counter.key().clone()))
    }

    /// Adds a slow wake to the next report.
    pub fn slow_wake(&self, slow: SlowWake) {
        let mut waiting = self.slow_wakes.lock();
        if waiting.len() < MAX_SLOW_WAKES {
            waiting.push(slow);
        }
    }

    /// Adds a wake to the next report.
    pub fn wake(&self, wake: WakeReport) {
        let mut waiting = self.wakes.lock();
        if waiting.len() < MAX_WAKES {
            waiting.push(wake);
        }
    }

    fn first_request(&self, key: &Key, describe: impl FnOnce() -> Option<FirstRequest>) {
        let mut waiting = self.first_requests.lock();
        if waiting.len() < MAX_FIRST_REQUESTS {
            waiting.extend(describe().map(|request| FirstRequestReport { key: key.clone(), request }));
        }
    }

    /// Reports at every whole second of wall time, and ahead of it, until dropped.
    pub async fn run(&self) {
        tokio::join!(self.report_periods(), self.report_bursts(), self.report_half_periods());
    }

    async fn report_bursts(&self) {
        loop {
            let counter = self.bursts.next().await;
            if let Some(burst) = counter.take_burst() {
                self.outlet.report(self.early_push(&counter, burst));
            }
        }
    }

    async fn report_half_periods(&self) {
        loop {
            tokio::time::sleep(until_next_second(clock::since_epoch() + HALF_SECOND)).await;
            let early = self.half_periods(Instant::now());
            if !early.messages.is_empty() {
                self.outlet.report(early);
            }
        }
    }

    async fn report_periods(&self) {
        loop {
            tokio::time::sleep(until_next_second(clock::since_epoch())).await;
            self.outlet.report(self.end_periods(Instant::now()));
        }
    }

    fn half_periods(&self, now: Instant) -> ActivatorReport {
        let messages = self
            .reported
            .lock()
            .values()
            .filter_map(|counter| Some(self.early_message(counter, counter.take_half_period(now)?)))
            .collect();
        ActivatorReport { messages, ..ActivatorReport::default() }
    }

    /// Ends the period of every reported workload; those that were idle are reported a last time.
    fn end_periods(&self, now: Instant) -> ActivatorReport {
        let (mut messages, mut pods) = (Vec::new(), Vec::new());
        self.reported.lock().retain(|key, counter| {
            let observed = counter.pods().end_period(now).into_iter();
            pods.extend(observed.map(|(ip, period)| self.pod_stat(key, ip, period)));
            let Some(period) = counter.end_period(now) else { return false };
            let stat = self.stat(period.concurrency, period.requests_per_second);
            messages.push(StatMessage { key: key.clone(), stat });
            !period.was_idle
        });
        ActivatorReport {
            is_beat: true,
            messages,
            pods,
            slow_wakes: std::mem::take(&mut *self.slow_wakes.lock()),
            wakes: std::mem::take(&mut *self.wakes.lock()),
            first_requests: std::mem::take(&mut *self.first_requests.lock()),
            ..ActivatorReport::default()
        }
    }

    fn early_push(&self, counter: &RequestCounter, early: EarlyReport) -> ActivatorReport {
        ActivatorReport { messages: vec![self.early_message(counter, early)], ..ActivatorReport::default() }
    }

    fn early_message(&self, counter: &RequestCounter, early: EarlyReport) -> StatMessage {
        let stat = self.stat(early.concurrency, early.arrived as f64);
        StatMessage { key: counter.key().clone(), stat }
    }

    fn stat(&self, concurrency: f64, requests_per_second: f64) -> Stat {
        Stat {
            pod: self.activator.clone(),
            average_concurrent_requests: concurrency,
            request_count: requests_per_second,
            timestamp: clock::unix_seconds(),
            ..Stat::default()
        }
    }

    fn pod_stat(&self, key: &Key, ip: IpAddr, period: PodPeriod) -> PodStat {
        let stat = self.stat(period.concurrency, period.requests_per_second);
        PodStat { key: key.clone(), ip, stat: Stat { app: Some(period.app), ..stat } }
    }
}

// === impl PendingBursts ===

impl PendingBursts {
    fn add(&self, counter: &Arc<RequestCounter>, now: Instant) {
        self.waiting.lock().push_back((now + BURST_DELAY, counter.clone()));
        self.added.notify_one();
    }

    /// The workload with the burst that is due next. Only one task may wait for it.
    async fn next(&self) -> Arc<RequestCounter> {
        loop {
            let first = self.waiting.lock().pop_front();
            match first {
                Some((at, counter)) => {
                    sleep_until(at).await;
                    return counter;
                }
                None => self.added.notified().await,
            }
        }
    }
}

fn until_next_second(since_epoch: Duration) -> Duration {
    let rest = 1000 - u64::from(since_epoch.subsec_millis());
    Duration::from_millis(if rest < SHORTEST_PERIOD_MS { rest + 1000 } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_at_whole_seconds() {
        assert_eq!(until_next_second(Duration::from_millis(5_300)), Duration::from_millis(700));
        assert_eq!(until_next_second(Duration::from_secs(5)), Duration::from_secs(1));
        assert_eq!(until_next_second(Duration::from_millis(5_999)), Duration::from_millis(1001));
    }
}
