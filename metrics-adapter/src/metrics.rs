//! The adapter's own metrics, all named `rouse_metrics_adapter_*`.
//!
//! No label holds what users choose: a workload's numbers are in its PodAutoscaler and in the metrics API.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Handles of all metrics. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Workloads in the table.
    pub workloads: IntGauge,
    /// Rounds of scraping, by outcome.
    pub scrapes: Outcomes,
    /// Seconds a round took.
    pub scrape_seconds: Histogram,
    /// Pushes and what became of their messages.
    pub pushes: PushMetrics,
    /// Readers of the decision stream.
    pub decision_readers: IntGauge,
    /// Readers that were too slow.
    pub decision_readers_dropped: IntCounter,
    /// Connections to the stats port that were refused for want of a right token.
    pub strangers: IntCounter,
    /// Decisions made, and rounds without data.
    pub decisions: Outcomes,
    /// Decisions made at once for a poke.
    pub pokes: IntCounter,
    /// Bad settings seen.
    pub setting_errors: IntCounter,
    /// Answers of the API by status code.
    pub api_responses: IntCounterVec,
    /// Token and access reviews, by outcome.
    pub reviews: Outcomes,
    /// Whether an APIService leads here, by its name.
    pub api_service_ours: IntGaugeVec,
    /// Unix time at which the serving certificate ends.
    pub certificate_not_after: IntGauge,
}

/// Two counters of one family.
#[derive(Clone, Debug)]
pub struct Outcomes {
    /// It worked.
    pub ok: IntCounter,
    /// It did not.
    pub failed: IntCounter,
}

/// Handles for what activators send.
#[derive(Clone, Debug)]
pub struct PushMetrics {
    /// Activators connected.
    pub connections: IntGauge,
    /// Connections refused because there were too many.
    pub refused: IntCounter,
    /// Frames taken in.
    pub frames: IntCounter,
    /// Frames dropped because they made no sense.
    pub bad_frames: IntCounter,
    /// Messages dropped because nothing is known of their workload.
    pub unknown_workload: IntCounter,
    /// Messages dropped because their numbers were implausible.
    pub implausible: IntCounter,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all.
    ///
    /// # Errors
    /// When the registry has one of them already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            workloads: gauge(registry, "workloads", "Workloads that are collected and decided on.")?,
            scrapes: Outcomes::register(
                registry,
                "scrapes_total",
                "Rounds of reading a workload's pods; a failed one is discarded whole.",
            )?,
            scrape_seconds: histogram(registry, "scrape_seconds", "How long a round of reading pods took.")?,
            pushes: PushMetrics::register(registry)?,
            decision_readers: gauge(registry, "decision_readers", "Connections that read decisions.")?,
            decision_readers_dropped: counter(
                registry,
                "decision_readers_dropped_total",
                "Readers of decisions that were disconnected because they were too slow.",
            )?,
            strangers: counter(
                registry,
                "stats_connections_refused_total",
                "Connections to the stats port that showed no token of a service account that may.",
            )?,
            decisions: Outcomes::register(
                registry,
                "decisions_total",
                "Decisions made; failed are those that had no data to decide by.",
            )?,
            pokes: counter(
                registry,
                "pokes_total",
                "Decisions made at once, because the next tick would be too late.",
            )?,
            setting_errors: counter(registry, "setting_errors_total", "Settings that were not accepted.")?,
            api_responses: counters(registry, "api_responses_total", "Answers of the API.", &["code"])?,
            reviews: Outcomes::register(
                registry,
                "reviews_total",
                "TokenReviews and SubjectAccessReviews asked of the API server.",
            )?,
            api_service_ours: gauges(
                registry,
                "api_service_ours",
                "Whether the APIService leads to this installation.",
                &["name"],
            )?,
            certificate_not_after: gauge(
                registry,
                "serving_certificate_not_after_seconds",
                "Unix time at which the serving certificate ends.",
            )?,
        })
    }
}

// === impl Outcomes ===

impl Outcomes {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, prometheus::Error> {
        let family = counters(registry, name, help, &["outcome"])?;
        Ok(Self { ok: family.with_label_values(&["ok"]), failed: family.with_label_values(&["failed"]) })
    }

    /// Counts one outcome.
    pub fn count(&self, ok: bool) {
        if ok { self.ok.inc() } else { self.failed.inc() }
    }
}

// === impl PushMetrics ===

impl PushMetrics {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let dropped = counters(
            registry,
            "push_dropped_total",
            "Frames or messages of activators that were dropped.",
            &["reason"],
        )?;
        Ok(Self {
            connections: gauge(registry, "push_connections", "Activators that are connected.")?,
            refused: dropped.with_label_values(&["too_many_connections"]),
            frames: counter(registry, "push_frames_total", "Frames taken in from activators.")?,
            bad_frames: dropped.with_label_values(&["bad_frame"]),
            unknown_workload: dropped.with_label_values(&["unknown_workload"]),
            implausible: dropped.with_label_values(&["implausible"]),
        })
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help).namespace("rouse").subsystem("metrics_adapter")
}

fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    let gauge = IntGauge::with_opts(opts(name, help))?;
    registry.register(Box::new(gauge.clone()))?;
    Ok(gauge)
}

fn gauges(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntGaugeVec, prometheus::Error> {
    let gauges = IntGaugeVec::new(opts(name, help), labels)?;
    registry.register(Box::new(gauges.clone()))?;
    Ok(gauges)
}

fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    let counter = IntCounter::with_opts(opts(name, help))?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn counters(
    registry: &Registry,
    name: &str,
    help: &str,
    labels: &[&str],
) -> Result<IntCounterVec, prometheus::Error> {
    let counters = IntCounterVec::new(opts(name, help), labels)?;
    registry.register(Box::new(counters.clone()))?;
    Ok(counters)
}

fn histogram(registry: &Registry, name: &str, help: &str) -> Result<Histogram, prometheus::Error> {
    // A round is cut at 2 s.
    let buckets = vec![0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];
    let opts = HistogramOpts { common_opts: opts(name, help), buckets };
    let histogram = Histogram::with_opts(opts)?;
    registry.register(Box::new(histogram.clone()))?;
    Ok(histogram)
}
