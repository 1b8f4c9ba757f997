//! The activator's metrics, all named `rouse_activator_*`.
//!
//! Handles of a workload are resolved with its first request, so that thousands of sleeping workloads have no series, and
//! are removed with the workload.

use std::sync::{Arc, OnceLock};

use autoscaler::Key;
use http::StatusCode;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};
use proxy::tcp::{ConnectionCounters, ConnectionOutcome};
use runtime::metrics::GaugeGuard;

use crate::cold_start::{ColdStart, Part};

const CODE_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Buckets of the parts of a cold start, in seconds: from a poke's milliseconds to a slow image.
const COLD_START_BUCKETS: [f64; 14] =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0];

/// All families.
#[derive(Clone, Debug)]
pub struct Metrics {
    requests: IntCounterVec,
    connections: IntCounterVec,
    held: IntGaugeVec,
    queue_full: IntCounterVec,
    cold_start: HistogramVec,
    /// Connections to receivers.
    pub push: PushMetrics,
    /// Connections to other activators.
    pub exchange: ExchangeMetrics,
    /// Wakes from here.
    pub guard: GuardMetrics,
}

/// Handles of one workload.
#[derive(Clone, Debug)]
pub struct WorkloadMetrics {
    requests: [IntCounter; CODE_CLASSES.len()],
    connections: ConnectionCounters,
    held: IntGauge,
    queue_full: IntCounter,
    cold_start_family: HistogramVec,
    key: Key,
    /// Made with the first cold start: most workloads have none here for long.
    cold_start: OnceLock<ColdStartMetrics>,
}

/// Handles of the parts of one workload's cold starts.
#[derive(Clone, Debug)]
pub struct ColdStartMetrics {
    parts: [Histogram; Part::ALL.len()],
}

/// Handles of the stat reporter.
#[derive(Clone, Debug)]
pub struct PushMetrics {
    connections: IntGauge,
    dropped: IntCounter,
}

/// Handles of the slot exchange.
#[derive(Clone, Debug)]
pub struct ExchangeMetrics {
    connections: IntGauge,
    said: IntCounter,
    heard: IntCounter,
}

/// Handles of the guard.
#[derive(Clone, Debug)]
pub struct GuardMetrics {
    woken: IntCounter,
    failed: IntCounter,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all families.
    ///
    /// # Errors
    /// When the registry has one of them already.
    pub fn register(registry: &Registry) -> Result<Arc<Self>, prometheus::Error> {
        let workload = &["namespace", "workload"];
        let requests = IntCounterVec::new(
            Opts::new("rouse_activator_requests_total", "Requests answered, by class of status code"),
            &["namespace", "workload", "code_class"],
        )?;
        let connections = IntCounterVec::new(
            Opts::new("rouse_activator_tcp_connections_total", "Connections that have ended, by how"),
            &["namespace", "workload", "outcome"],
        )?;
        let held = IntGaugeVec::new(
            Opts::new("rouse_activator_held_requests", "Requests waiting for a pod"),
            workload,
        )?;
        let queue_full = IntCounterVec::new(
            Opts::new("rouse_activator_queue_full_total", "Requests refused because too many wait already"),
            workload,
        )?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(held.clone()))?;
        registry.register(Box::new(queue_full.clone()))?;
        let opts =
            HistogramOpts::new("rouse_activator_cold_start_seconds", "Parts of the way of a held request")
                .buckets(COLD_START_BUCKETS.to_vec());
        let cold_start = HistogramVec::new(opts, &["namespace", "workload", "part"])?;
        registry.register(Box::new(cold_start.clone()))?;
        let push = PushMetrics::register(registry)?;
        let exchange = ExchangeMetrics::register(registry)?;
        let guard = GuardMetrics::register(registry)?;
        Ok(Arc::new(Self { requests, connections, held, queue_full, cold_start, push, exchange, guard }))
    }

    /// Handles of one workload.
    pub fn of_workload(&self, key: &Key) -> WorkloadMetrics {
        let labels = [key.namespace.as_str(), key.name.as_str()];
        let [namespace, name] = labels;
        WorkloadMetrics {
            requests: CODE_CLASSES.map(|class| self.requests.with_label_values(&[namespace, name, class])),
            connections: ConnectionCounters::new(|outcome| {
                self.connections.with_label_values(&[namespace, name, outcome])
            }),
            held: self.held.with_label_values(&labels),
            queue_full: self.queue_full.with_label_values(&labels),
            cold_start_family: self.cold_start.clone(),
            key: key.clone(),
            cold_start: OnceLock::new(),
        }
    }

    /// Forgets a workload that is gone.
    pub fn forget(&self, key: &Key) {
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
        let _ = self.queue_full.remove_label_values(&labels);
        for part in Part::ALL {
            let _ = self.cold_start.remove_label_values(&[namespace, name, part.as_str()]);
        }
    }
}

// === impl WorkloadMetrics ===

impl WorkloadMetrics {
    /// A response has a head.
    pub fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(counter) = self.requests.get(class) {
            counter.inc();
        }
    }

    /// A connection has ended.
    pub fn connection_ended(&self, outcome: ConnectionOutcome) {
        self.connections.count(outcome);
    }

    /// A request waits, until this is dropped.
    pub fn hold(&self) -> GaugeGuard {
        GaugeGuard::new(&self.held)
    }

    /// A held request was answered.
    pub fn cold_start(&self, way: &ColdStart) {
        let made = || ColdStartMetrics::of_workload(&self.cold_start_family, &self.key);
        self.cold_start.get_or_init(made).observe(way);
    }

    /// A request was refused because too many wait.
    pub fn queue_full(&self) {
        self.queue_full.inc();
    }
}

// === impl ColdStartMetrics ===

impl ColdStartMetrics {
    fn of_workload(family: &HistogramVec, key: &Key) -> Self {
        let of = |part: Part| family.with_label_values(&[&key.namespace, &key.name, part.as_str()]);
        Self { parts: Part::ALL.map(of) }
    }

    fn observe(&self, way: &ColdStart) {
        for (part, handle) in Part::ALL.into_iter().zip(&self.parts) {
            if let Some(took) = way.part(part) {
                handle.observe(took.as_secs_f64());
            }
        }
    }
}

// === impl PushMetrics ===

impl PushMetrics {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let connections = IntGauge::new(
            "rouse_activator_push_connections",
            "Metrics-adapters and zero-scalers that are connected",
        )?;
        let dropped = IntCounter::new(
            "rouse_activator_pushes_dropped_total",
            "Reports given up for newer ones, because a receiver was away or slow",
        )?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(dropped.clone()))?;
        Ok(Self { connections, dropped })
    }

    /// A receiver is connected, until this is dropped.
    pub fn connected(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Reports were given up.
    pub fn dropped(&self, count: u64) {
        self.dropped.inc_by(count);
    }
}

// === impl ExchangeMetrics ===

impl ExchangeMetrics {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let connections =
            IntGauge::new("rouse_activator_peer_connections", "Other activators that are connected")?;
        let words = IntCounterVec::new(
            Opts::new("rouse_activator_slot_words_total", "What activators said to each other about slots"),
            &["direction"],
        )?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(words.clone()))?;
        let words = |direction| words.with_label_values(&[direction]);
        Ok(Self { connections, said: words("said"), heard: words("heard") })
    }

    /// So many others are connected.
    pub fn connected(&self, count: usize) {
        self.connections.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// So much was said to one of them.
    pub fn said(&self, words: usize) {
        self.said.inc_by(words as u64);
    }

    /// So much was heard from one of them.
    pub fn heard(&self, words: usize) {
        self.heard.inc_by(words as u64);
    }
}

// === impl GuardMetrics ===

impl GuardMetrics {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let wakes = IntCounterVec::new(
            Opts::new(
                "rouse_activator_guard_wakes_total",
                "Workloads that were taken from zero from here, because no zero-scaler could be reached, by outcome",
            ),
            &["outcome"],
        )?;
        registry.register(Box::new(wakes.clone()))?;
        let wakes = |outcome| wakes.with_label_values(&[outcome]);
        Ok(Self { woken: wakes("woken"), failed: wakes("failed") })
    }

    /// One was.
    pub fn woken(&self) {
        self.woken.inc();
    }

    /// One could not be.
    pub fn failed(&self) {
        self.failed.inc();
    }
}
