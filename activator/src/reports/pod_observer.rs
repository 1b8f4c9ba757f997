//! PodObserver: how the pods of one workload serve the requests of this activator.
//!
//! For a target that is learned without sidecars. Input: the handler's requests, from when they are
//! sent to a pod. Output: with each periodic report, one stat for each pod that had a request. The
//! metrics-adapter adds up the stats of all activators, so that a learner gets what a sidecar would
//! report.
//!
//! Connections that are not HTTP are not observed. Upgraded ones count as concurrency only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use autoscaler::stats::{AppStat, EndedRequests, RequestProgress, RequestStats};
use component_base::clock;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::workloads::Observation;

/// The observed pods of one workload.
#[derive(Debug, Default)]
pub struct PodObserver {
    /// Read by every request, without the lock.
    is_enabled: AtomicBool,
    state: Mutex<ObserverState>,
}

#[derive(Debug, Default)]
struct ObserverState {
    observation: Option<Observation>,
    /// Those with a request now or in this period.
    pods: HashMap<IpAddr, Arc<Mutex<PodCounts>>>,
}

#[derive(Debug)]
struct PodCounts {
    stats: RequestStats,
    ended: EndedRequests,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodPeriod {
    pub(super) concurrency: f64,
    pub(super) requests_per_second: f64,
    pub(super) app: AppStat,
}

/// A request that was sent to an observed pod. Dropping it ends the request.
#[derive(Debug)]
pub struct ObservedRequest {
    pod: Arc<Mutex<PodCounts>>,
    sent: Instant,
    progress: RequestProgress,
}

// === impl PodObserver ===

impl PodObserver {
    /// Sets what is observed from now on.
    pub fn set(&self, observation: Option<Observation>) {
        let mut state = self.state.lock();
        state.observation = observation;
        if observation.is_none() {
            state.pods.clear();
        }
        self.is_enabled.store(observation.is_some(), Ordering::Relaxed);
    }

    /// Counts a request that is sent to a pod now; `None` if nothing is observed.
    pub fn enter(&self, pod: IpAddr) -> Option<Box<ObservedRequest>> {
        if !self.is_enabled.load(Ordering::Relaxed) {
            return None;
        }
        let sent = Instant::now();
        let pod = {
            let mut state = self.state.lock();
            let objective = state.observation?.objective;
            let new = || Arc::new(Mutex::new(PodCounts::new(sent, EndedRequests::new(objective))));
            state.pods.entry(pod).or_insert_with(new).clone()
        };
        pod.lock().stats.request_in(sent.into_std(), false);
        Some(Box::new(ObservedRequest { pod, sent, progress: RequestProgress::Sent }))
    }

    /// Ends a period; returns its stats. Pods without a request are left out from then on.
    pub(super) fn end_period(&self, now: Instant) -> Vec<(IpAddr, PodPeriod)> {
        let mut state = self.state.lock();
        let objective = state.observation.and_then(|observation| observation.objective);
        let mut periods = Vec::new();
        state.pods.retain(|pod, counts| {
            let mut counts = counts.lock();
            let stats = counts.stats.report(now.into_std());
            let app = counts.ended.report(stats.period, objective);
            let seconds = stats.period.as_secs_f64();
            let arrived = stats.request_count as f64;
            periods.push((
                *pod,
                PodPeriod {
                    concurrency: stats.average_concurrency,
                    requests_per_second: if seconds > 0.0 { arrived / seconds } else { 0.0 },
                    app,
                },
            ));
            counts.stats.in_flight() > 0 || stats.average_concurrency > 0.0
        });
        periods
    }
}

// === impl PodCounts ===

impl PodCounts {
    /// The first period begins at the last whole second. No request ran before, so the average is
    /// over the whole period.
    fn new(now: Instant, ended: EndedRequests) -> Self {
        let start = now.checked_sub(clock::into_second()).unwrap_or(now);
        Self { stats: RequestStats::new(start.into_std()), ended }
    }
}

// === impl ObservedRequest ===

impl ObservedRequest {
    /// The app sent the head of its response.
    pub fn respond(&mut self, status: StatusCode) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.progress = RequestProgress::Untimed;
        }
        self.progress.respond(status.is_server_error());
    }

    /// The app completed its response, or `failed` to.
    pub fn complete(&mut self, failed: bool) {
        self.progress.complete(failed);
    }

    /// There will be no response. `received` is whether the app received the request.
    pub fn fail(&mut self, received: bool) {
        self.progress = if received { RequestProgress::Failed } else { RequestProgress::Untimed };
    }
}

impl Drop for ObservedRequest {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut counts = self.pod.lock();
        counts.stats.request_out(now.into_std(), false);
        if let Some(end) = self.progress.end(now.saturating_duration_since(self.sent)) {
            counts.ended.record(end);
        }
    }
}

#[cfg(test)]
mod tests;
