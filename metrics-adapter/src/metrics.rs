//! The adapter's own metrics, all named `rouse_metrics_adapter_*`.
//!
//! Cardinality is bounded: only the learned targets have labels with values that users choose, and
//! they are removed with their workload. Other values per workload are in its PodAutoscaler and in
//! the metrics API.

use autoscaler::Key;
use autoscaler::contract::INJECTION;
use autoscaler::learning_report::{LearningReport, Phase};
use autoscaler::settings::LearnTarget;
use component_base::kubernetes::DecodeErrors;
use component_base::kubernetes::lease::Leadership;
use component_base::metrics::Families;
use prometheus::{GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use crate::COMPONENT;

/// Buckets of scrape rounds, in seconds. A round times out after 2 s.
const SCRAPE_SECONDS: [f64; 11] = [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

/// Buckets of the time between two queries of an HPA, in seconds. Kubernetes' default is 15 s.
const HPA_QUERY_SECONDS: [f64; 10] = [10.0, 16.0, 20.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0, 1800.0];

/// A registry with every family of the process, for the reference page of metrics.
///
/// # Errors
/// When two families have the same name.
pub fn registry_with_all_families() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    component_base::metrics::register_build_info(&registry, COMPONENT, env!("CARGO_PKG_VERSION"))?;
    Leadership::always_leading().register(&registry, COMPONENT)?;
    let metrics = Metrics::register(&registry)?;
    metrics.decode_errors.of("Pod");
    metrics.api_responses.with_label_values(&["200"]).inc();
    metrics.api_service_owned.with_label_values(&["v1beta1.external.metrics.k8s.io"]).set(1);
    metrics.webhook_owned.with_label_values(&[INJECTION]).set(1);
    metrics.learning.learned_target.with_label_values(&["shop", "web"]);
    metrics.learning.recommended_target.with_label_values(&["shop", "web"]);
    metrics.learning.phase.with_label_values(&["shop", "web", "Settled"]);
    Ok(registry)
}

/// Handles of all metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub workloads: IntGauge,
    pub scrapes: OutcomeCounters,
    pub scrape_duration: Histogram,
    /// Pushes of activators.
    pub pushes: PushMetrics,
    pub decision_subscribers: IntGauge,
    pub decision_subscribers_dropped: IntCounter,
    pub stats_unauthorized: IntCounter,
    pub decisions: OutcomeCounters,
    pub pokes: IntCounter,
    pub setting_errors: IntCounter,
    pub decode_errors: DecodeErrors,
    pub api_responses: IntCounterVec,
    pub hpa_query_interval: Histogram,
    pub reviews: OutcomeCounters,
    pub api_service_owned: IntGaugeVec,
    pub webhook_owned: IntGaugeVec,
    pub sidecar_reviews: OutcomeCounters,
    pub certificate_not_after: IntGauge,
    pub deletion_costs: OutcomeCounters,
    pub learning: LearningMetrics,
    pub resources: ResourceMetrics,
}

/// The counters of one family with the label `outcome`.
#[derive(Clone, Debug)]
pub struct OutcomeCounters {
    pub ok: IntCounter,
    pub failed: IntCounter,
}

/// Handles for pushes of activators.
#[derive(Clone, Debug)]
pub struct PushMetrics {
    /// Connected activators.
    pub connections: IntGauge,
    pub rejected: IntCounter,
    pub frames: IntCounter,
    pub bad_frames: IntCounter,
    pub unknown_workload: IntCounter,
    pub implausible: IntCounter,
    pub silent: IntGauge,
}

/// Handles for reads of CPU and memory.
#[derive(Clone, Debug)]
pub struct ResourceMetrics {
    pub reads: OutcomeCounters,
    pub invalid: IntCounter,
    pub available: IntGauge,
}

/// The families of learned targets, with labels by workload.
#[derive(Clone, Debug)]
pub struct LearningMetrics {
    learned_target: GaugeVec,
    recommended_target: GaugeVec,
    phase: IntGaugeVec,
}

/// The values of one workload's learned target, which are removed when this is dropped.
#[derive(Debug)]
pub struct LearningGauges {
    metrics: LearningMetrics,
    key: Key,
    shown: Option<(LearnTarget, Phase)>,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all metrics.
    ///
    /// # Errors
    /// When the registry already has one of these metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families { registry, component: COMPONENT };
        Ok(Self {
            workloads: families.gauge("workloads", "Workloads in the table.")?,
            scrapes: OutcomeCounters::register(
                families,
                "scrapes_total",
                "Scrape rounds of a workload's pods. A failed round is discarded.",
            )?,
            scrape_duration: families.histogram(
                "scrape_duration_seconds",
                "Duration of a scrape round.",
                &SCRAPE_SECONDS,
            )?,
            pushes: PushMetrics::register(families)?,
            decision_subscribers: families
                .gauge("decision_subscribers", "Connected subscribers of decisions.")?,
            decision_subscribers_dropped: families.counter(
                "decision_subscribers_dropped_total",
                "Subscribers of decisions that were disconnected because they were too slow.",
            )?,
            stats_unauthorized: families.counter(
                "stats_unauthorized_total",
                "Requests to the stats port without the token of an allowed service account.",
            )?,
            decisions: OutcomeCounters::register(
                families,
                "decisions_total",
                "Decisions on workloads. A failed one had no data.",
            )?,
            pokes: families
                .counter("pokes_total", "Decisions made before the next tick for an urgent workload.")?,
            setting_errors: families.counter("setting_errors_total", "Invalid settings.")?,
            decode_errors: DecodeErrors::register(registry, COMPONENT)?,
            api_responses: families.counters(
                "api_responses_total",
                "Responses of the metrics API.",
                &["code"],
            )?,
            hpa_query_interval: families.histogram(
                "hpa_query_interval_seconds",
                "Time between two queries of a workload's metric, in which its HPA keeps the size.",
                &HPA_QUERY_SECONDS,
            )?,
            reviews: OutcomeCounters::register(
                families,
                "reviews_total",
                "TokenReviews and SubjectAccessReviews sent to the API server.",
            )?,
            api_service_owned: families.gauges(
                "api_service_owned",
                "1 if the APIService names this installation's Service, else 0.",
                &["name"],
            )?,
            webhook_owned: families.gauges(
                "webhook_owned",
                "1 if the MutatingWebhookConfiguration names this installation's Service, else 0.",
                &["name"],
            )?,
            sidecar_reviews: OutcomeCounters::register(
                families,
                "sidecar_reviews_total",
                "Requests to the sidecar's webhook. The pod of a failed one gets no sidecar.",
            )?,
            certificate_not_after: families.gauge(
                "serving_certificate_expiration_timestamp_seconds",
                "Expiry of the serving certificate, in Unix time.",
            )?,
            deletion_costs: OutcomeCounters::register(
                families,
                "deletion_cost_writes_total",
                "Writes of the deletion cost of a pod, before a scale-down and after it.",
            )?,
            learning: LearningMetrics::register(families)?,
            resources: ResourceMetrics::register(families)?,
        })
    }
}

// === impl OutcomeCounters ===

impl OutcomeCounters {
    fn register(families: Families<'_>, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let family = families.counters(name, help, &["outcome"])?;
        Ok(Self { ok: family.with_label_values(&["ok"]), failed: family.with_label_values(&["failed"]) })
    }

    /// Counts a success or a failure.
    pub fn count(&self, ok: bool) {
        if ok { self.ok.inc() } else { self.failed.inc() }
    }
}

// === impl PushMetrics ===

impl PushMetrics {
    fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let dropped = families.counters(
            "push_dropped_total",
            "Dropped frames, messages and connections of activators.",
            &["reason"],
        )?;
        Ok(Self {
            connections: families.gauge("push_connections", "Connected activators.")?,
            rejected: dropped.with_label_values(&["too_many_connections"]),
            frames: families.counter("push_frames_total", "Valid frames from activators.")?,
            bad_frames: dropped.with_label_values(&["bad_frame"]),
            unknown_workload: dropped.with_label_values(&["unknown_workload"]),
            implausible: dropped.with_label_values(&["implausible"]),
            silent: families.gauge("silent_activators", "Activators that are due to report, and do not.")?,
        })
    }
}

// === impl ResourceMetrics ===

impl ResourceMetrics {
    fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        Ok(Self {
            reads: OutcomeCounters::register(
                families,
                "resource_reads_total",
                "Reads of CPU and memory of pods from metrics.k8s.io.",
            )?,
            invalid: families.counter(
                "resource_items_invalid_total",
                "Pods in metrics.k8s.io that could not be decoded and were skipped.",
            )?,
            available: families.gauge(
                "resource_metrics_available",
                "1 on the leader while CPU and memory of pods can be read from metrics.k8s.io, else 0.",
            )?,
        })
    }
}

// === impl LearningMetrics ===

impl LearningMetrics {
    fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let workload = ["namespace", "workload"];
        let learned = "Learned concurrency target of a workload with learn-target Apply.";
        let recommended = "Learned concurrency target of a workload with learn-target Recommend.";
        Ok(Self {
            learned_target: families.float_gauges("learned_target", learned, &workload)?,
            recommended_target: families.float_gauges("recommended_target", recommended, &workload)?,
            phase: families.gauges(
                "learning_phase",
                "1 for the present phase of learning a workload's target.",
                &["namespace", "workload", "phase"],
            )?,
        })
    }

    /// The values of a workload; none until the first update.
    pub fn of(&self, key: &Key) -> LearningGauges {
        LearningGauges { metrics: self.clone(), key: key.clone(), shown: None }
    }

    fn targets(&self, mode: LearnTarget) -> &GaugeVec {
        if mode == LearnTarget::Apply { &self.learned_target } else { &self.recommended_target }
    }
}

// === impl LearningGauges ===

impl LearningGauges {
    /// Sets the values. There is one target and one phase of a workload at a time.
    pub fn update(&mut self, report: &LearningReport) {
        let LearningReport { mode, phase, target, .. } = report;
        if self.shown != Some((*mode, *phase)) {
            self.remove();
            self.metrics.phase.with_label_values(&self.phase_labels(&phase.to_string())).set(1);
            self.shown = Some((*mode, *phase));
        }
        self.metrics.targets(*mode).with_label_values(&self.labels()).set(*target);
    }

    fn remove(&mut self) {
        // An error means that there is no such value.
        if let Some((mode, phase)) = self.shown.take() {
            let _ = self.metrics.targets(mode).remove_label_values(&self.labels());
            let _ = self.metrics.phase.remove_label_values(&self.phase_labels(&phase.to_string()));
        }
    }

    fn labels(&self) -> [&str; 2] {
        [&self.key.namespace, &self.key.name]
    }

    fn phase_labels<'a>(&'a self, phase: &'a str) -> [&'a str; 3] {
        [&self.key.namespace, &self.key.name, phase]
    }
}

impl Drop for LearningGauges {
    fn drop(&mut self) {
        self.remove();
    }
}
