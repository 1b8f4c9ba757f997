//! Metrics by workload.
//!
//! The handles of a workload are resolved with its first request, so that thousands of workloads at
//! zero have no series. They are removed with the workload.

use std::sync::OnceLock;

use autoscaler::Key;
use component_base::metrics::{Families, GaugeGuard};
use http::StatusCode;
use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use proxy::tcp::{ConnectionCounters, ConnectionOutcome};

use crate::reports::cold_start::{ColdStartPhase, ColdStartTrace};

const CODE_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Kinds of `memory_full_total`.
const CONNECTION: &str = "connection";
const REQUEST: &str = "request";
const IDLE_CONNECTION: &str = "idle_connection";

/// Buckets of the phases of a cold start, in seconds: from the milliseconds of a poke to a slow
/// image pull.
const COLD_START_BUCKETS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];

/// The families that have a series for each workload.
#[derive(Clone, Debug)]
pub struct WorkloadFamilies {
    requests: IntCounterVec,
    connections: IntCounterVec,
    held: IntGaugeVec,
    waiting_pages: IntCounterVec,
    queue_full: IntCounterVec,
    memory_full: IntCounterVec,
    cold_start: HistogramVec,
}

/// The metrics of one workload. Their handles are resolved with its first request.
#[derive(Debug)]
pub struct LazyMetrics {
    families: WorkloadFamilies,
    key: Key,
    handles: OnceLock<WorkloadMetrics>,
}

/// Handles of one workload.
#[derive(Clone, Debug)]
pub struct WorkloadMetrics {
    requests: [IntCounter; CODE_CLASSES.len()],
    connections: ConnectionCounters,
    held: IntGauge,
    waiting_pages: IntCounter,
    queue_full: IntCounter,
    refused_connections: IntCounter,
    refused_requests: IntCounter,
    closed_idle_connections: IntCounter,
    cold_start_family: HistogramVec,
    key: Key,
    /// Made with the first cold start, which most workloads never have in this process.
    cold_start: OnceLock<ColdStartMetrics>,
}

/// Handles of the phases of one workload's cold starts.
#[derive(Clone, Debug)]
struct ColdStartMetrics {
    phases: [Histogram; ColdStartPhase::ALL.len()],
}

// === impl WorkloadFamilies ===

impl WorkloadFamilies {
    /// Registers the families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let workload = &["namespace", "workload"];
        Ok(Self {
            requests: families.counters(
                "requests_total",
                "Responses sent, by class of status code",
                &["namespace", "workload", "code_class"],
            )?,
            connections: families.counters(
                "tcp_connections_total",
                "TCP connections that have ended, by outcome",
                &["namespace", "workload", "outcome"],
            )?,
            held: families.gauges("held_requests", "Requests that wait for a pod", workload)?,
            waiting_pages: families.counters(
                "waiting_pages_total",
                "Waiting pages sent to browsers, which requests_total does not count",
                workload,
            )?,
            queue_full: families.counters(
                "queue_full_total",
                "Requests rejected because of a full queue",
                workload,
            )?,
            memory_full: families.counters(
                "memory_full_total",
                "Connections closed and requests rejected because the memory budget was full, by kind",
                &["namespace", "workload", "kind"],
            )?,
            cold_start: families.histograms(
                "cold_start_seconds",
                "Duration of each phase of a held request, from its arrival to the response head",
                &COLD_START_BUCKETS,
                &["namespace", "workload", "part"],
            )?,
        })
    }

    /// Handles of one workload.
    fn of_workload(&self, key: &Key) -> WorkloadMetrics {
        let labels = [key.namespace.as_str(), key.name.as_str()];
        let [namespace, name] = labels;
        WorkloadMetrics {
            requests: CODE_CLASSES.map(|class| self.requests.with_label_values(&[namespace, name, class])),
            connections: ConnectionCounters::new(|outcome| {
                self.connections.with_label_values(&[namespace, name, outcome])
            }),
            held: self.held.with_label_values(&labels),
            waiting_pages: self.waiting_pages.with_label_values(&labels),
            queue_full: self.queue_full.with_label_values(&labels),
            refused_connections: self.memory_full.with_label_values(&[namespace, name, CONNECTION]),
            refused_requests: self.memory_full.with_label_values(&[namespace, name, REQUEST]),
            closed_idle_connections: self.memory_full.with_label_values(&[namespace, name, IDLE_CONNECTION]),
            cold_start_family: self.cold_start.clone(),
            key: key.clone(),
            cold_start: OnceLock::new(),
        }
    }

    /// Removes the series of a workload.
    pub fn remove(&self, key: &Key) {
        let labels = [key.namespace.as_str(), key.name.as_str()];
        let [namespace, name] = labels;
        // An error means that the workload never had a request.
        for class in CODE_CLASSES {
            let _ = self.requests.remove_label_values(&[namespace, name, class]);
        }
        for outcome in ConnectionOutcome::ALL {
            let _ = self.connections.remove_label_values(&[namespace, name, outcome.label()]);
        }
        let _ = self.held.remove_label_values(&labels);
        let _ = self.waiting_pages.remove_label_values(&labels);
        let _ = self.queue_full.remove_label_values(&labels);
        for kind in [CONNECTION, REQUEST, IDLE_CONNECTION] {
            let _ = self.memory_full.remove_label_values(&[namespace, name, kind]);
        }
        for phase in ColdStartPhase::ALL {
            let _ = self.cold_start.remove_label_values(&[namespace, name, phase.as_str()]);
        }
    }
}

// === impl LazyMetrics ===

impl LazyMetrics {
    /// No series yet.
    pub(super) fn new(families: WorkloadFamilies, key: Key) -> Self {
        Self { families, key, handles: OnceLock::new() }
    }

    /// The handles.
    pub fn get(&self) -> &WorkloadMetrics {
        self.handles.get_or_init(|| self.families.of_workload(&self.key))
    }
}

// === impl WorkloadMetrics ===

impl WorkloadMetrics {
    /// Counts a response by its status.
    pub fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.requests.get(class) {
            counter.inc();
        }
    }

    /// Counts a TCP connection that has ended.
    pub fn connection_ended(&self, outcome: ConnectionOutcome) {
        self.connections.count(outcome);
    }

    /// Counts a request as held until the returned value is dropped.
    pub fn hold(&self) -> GaugeGuard {
        GaugeGuard::new(&self.held)
    }

    /// Observes the phases of a held request.
    pub fn cold_start(&self, trace: &ColdStartTrace) {
        let make = || ColdStartMetrics::of_workload(&self.cold_start_family, &self.key);
        self.cold_start.get_or_init(make).observe(trace);
    }

    /// Makes the series that are otherwise made with the first cold start.
    pub(super) fn touch_all(&self) {
        self.cold_start.get_or_init(|| ColdStartMetrics::of_workload(&self.cold_start_family, &self.key));
    }

    /// Counts a waiting page.
    pub fn waiting_page(&self) {
        self.waiting_pages.inc();
    }

    /// Counts a request that was rejected because of a full queue.
    pub fn queue_full(&self) {
        self.queue_full.inc();
    }

    /// Counts a connection that was refused because of a full memory budget.
    pub fn connection_refused(&self) {
        self.refused_connections.inc();
    }

    /// Counts a request that was rejected because of a full memory budget.
    pub fn request_refused(&self) {
        self.refused_requests.inc();
    }

    /// Counts an idle connection that was closed because of a full memory budget.
    pub fn idle_connection_closed(&self) {
        self.closed_idle_connections.inc();
    }
}

// === impl ColdStartMetrics ===

impl ColdStartMetrics {
    fn of_workload(family: &HistogramVec, key: &Key) -> Self {
        let of =
            |phase: ColdStartPhase| family.with_label_values(&[&key.namespace, &key.name, phase.as_str()]);
        Self { phases: ColdStartPhase::ALL.map(of) }
    }

    fn observe(&self, trace: &ColdStartTrace) {
        for (phase, handle) in ColdStartPhase::ALL.into_iter().zip(&self.phases) {
            if let Some(duration) = trace.duration(phase) {
                handle.observe(duration.as_secs_f64());
            }
        }
    }
}
