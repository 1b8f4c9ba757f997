//! The zero-scaler's metric families, all named `rouse_zero_scaler_*`.
//!
//! No label has a value that users choose, so cardinality is bounded.

use autoscaler::scaling::savings::ResourceTime;
use component_base::kubernetes::DecodeErrors;
use component_base::kubernetes::lease::Leadership;
use component_base::metrics::Families;
use prometheus::{Counter, Gauge, Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};

use crate::FIELD_MANAGER;

/// From half a millisecond to ten seconds; the budget of a wake is 10 ms.
const LATENCIES: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.006, 0.01, 0.02, 0.04, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// A registry with every family of the process, for the reference page of metrics.
///
/// # Errors
/// When two families have the same name.
pub fn registry_with_all_families() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    component_base::metrics::register_build_info(&registry, FIELD_MANAGER, env!("CARGO_PKG_VERSION"))?;
    Leadership::always_leading().register(&registry, FIELD_MANAGER)?;
    let metrics = Metrics::register(&registry)?;
    for (family, label) in
        [(&metrics.scale_writes, "wake"), (&metrics.watch_errors, "HPAs"), (&metrics.reconcile_errors, "HPA")]
    {
        family.with_label_values(&[label]);
    }
    metrics.reconcile_seconds.with_label_values(&["HPA"]);
    metrics.decode_errors.of("HorizontalPodAutoscaler");
    Ok(registry)
}

/// Handles of all families. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub wake_seconds: Histogram,
    pub path_probes: IntCounterVec,
    pub wakes: IntCounterVec,
    pub scale_writes: IntCounterVec,
    /// Received push frames.
    pub push_frames: IntCounter,
    pub push_frames_bad: IntCounter,
    /// Open push connections.
    pub push_connections: IntGauge,
    pub push_connections_refused: IntCounter,
    pub silent_activators: IntGauge,
    /// Open decision streams.
    pub decision_streams: IntGauge,
    pub decisions_dropped: IntCounter,
    pub events_dropped: IntCounter,
    pub rate_limited_seconds: Counter,
    pub watch_errors: IntCounterVec,
    pub decode_errors: DecodeErrors,
    pub reconcile_seconds: HistogramVec,
    pub reconcile_errors: IntCounterVec,
    pub paused_workloads: IntGauge,
    pub savings: SavingsMetrics,
}

/// What all workloads together did not use because they were at zero. They fall where starts take
/// more than zero saves, and with deleted workloads.
#[derive(Clone, Debug)]
pub struct SavingsMetrics {
    pod_seconds: Gauge,
    cpu_seconds: Gauge,
    memory_byte_seconds: Gauge,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all families.
    ///
    /// # Errors
    /// When the registry has one of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families { registry, component: FIELD_MANAGER };
        let counters = |suffix, help: &str, label| families.counters(suffix, help, &[label]);
        Ok(Self {
            wake_seconds: families.histogram(
                "wake_patch_seconds",
                "Time from an activator's report to the response to the write of /scale",
                &LATENCIES,
            )?,
            path_probes: initialized(
                counters(
                    "activator_path_probes_total",
                    "Probes whether a Service leads to activators, by outcome",
                    "outcome",
                )?,
                &["passed", "failed"],
            ),
            wakes: initialized(
                counters("wakes_total", "Wakes of workloads at zero, by outcome", "outcome")?,
                &["scaled", "active", "failed"],
            ),
            scale_writes: counters("scale_writes_total", "Writes of /scale, by cause", "cause")?,
            push_frames: families.counter("push_frames_total", "Push frames received from activators")?,
            push_frames_bad: families
                .counter("push_frames_malformed_total", "Push frames or messages dropped as malformed")?,
            push_connections: families.gauge("push_connections", "Open push connections of activators")?,
            push_connections_refused: families.counter(
                "push_connections_rejected_total",
                "Push connections rejected for lack of an activator's token",
            )?,
            silent_activators: families.gauge(
                "silent_activators",
                "Activators that are due to report, and do not, here or to a metrics-adapter",
            )?,
            decision_streams: families
                .gauge("decision_streams", "Open decision streams to metrics-adapters")?,
            decisions_dropped: families.counter(
                "decisions_dropped_total",
                "Decision messages dropped as malformed or for lack of space",
            )?,
            events_dropped: families
                .counter("events_dropped_total", "Events dropped because the queue was full")?,
            rate_limited_seconds: families.register(Counter::with_opts(families.opts(
                "kube_api_rate_limited_seconds_total",
                "Delay of requests to the API server by --kube-api-qps",
            ))?)?,
            watch_errors: counters("watch_errors_total", "Failures of watches, by kind", "kind")?,
            decode_errors: DecodeErrors::register(registry, FIELD_MANAGER)?,
            reconcile_seconds: families.histograms(
                "reconcile_seconds",
                "Duration of reconciles, by kind",
                &LATENCIES,
                &["kind"],
            )?,
            reconcile_errors: counters("reconcile_errors_total", "Failed reconciles, by kind", "kind")?,
            paused_workloads: families.gauge(
                "paused_workloads",
                "Workloads that keep their size by the annotation paused, or at 0 by another writer",
            )?,
            savings: SavingsMetrics::register(families)?,
        })
    }
}

// === impl SavingsMetrics ===

impl SavingsMetrics {
    fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        Ok(Self {
            pod_seconds: families.float_gauge(
                "saved_pod_seconds",
                "Seconds of pods that all workloads did not use at zero, against one pod each, less the starts after it",
            )?,
            cpu_seconds: families.float_gauge(
                "saved_cpu_request_seconds",
                "saved_pod_seconds in seconds of requested CPUs",
            )?,
            memory_byte_seconds: families.float_gauge(
                "saved_memory_request_byte_seconds",
                "saved_pod_seconds in seconds of requested bytes of memory",
            )?,
        })
    }

    /// Sets the totals of all workloads.
    pub fn set(&self, total: ResourceTime) {
        self.pod_seconds.set(total.pod_seconds as f64);
        self.cpu_seconds.set(total.cpu_milli_seconds as f64 / 1000.0);
        self.memory_byte_seconds.set(total.memory_mib_seconds as f64 * f64::from(1 << 20));
    }
}

/// Makes the series of these values of the label. Prometheus does not see an increase from a series
/// that does not exist, so alerts would miss the first failure.
fn initialized(family: IntCounterVec, values: &[&str]) -> IntCounterVec {
    for value in values {
        family.with_label_values(&[value]);
    }
    family
}
