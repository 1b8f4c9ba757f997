//! What the zero-scaler counts and times.

use prometheus::{
    Counter, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    core::Collector,
};

/// From half a millisecond to ten seconds; the budget of a wake is 10 ms.
const LATENCIES: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.006, 0.01, 0.02, 0.04, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];

/// All families, registered once.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// From the receipt of a push to the API server's answer to the patch it caused.
    pub wake_seconds: Histogram,
    /// Questions whether activators are in the path, by answer.
    pub probes: IntCounterVec,
    /// Wakes by outcome.
    pub wakes: IntCounterVec,
    /// Writes of `/scale` by cause.
    pub scale_writes: IntCounterVec,
    /// Push frames taken.
    pub push_frames: IntCounter,
    /// Push frames or messages that made no sense.
    pub push_frames_bad: IntCounter,
    /// Connected pushers.
    pub push_connections: IntGauge,
    /// Pushers refused for want of an activator's token.
    pub push_connections_refused: IntCounter,
    /// Connected decision streams.
    pub decision_streams: IntGauge,
    /// Decision messages that made no sense, or found no room.
    pub decisions_dropped: IntCounter,
    /// Events that found no room.
    pub events_dropped: IntCounter,
    /// Seconds that requests to the API server waited for their turn.
    pub paced_seconds: Counter,
    /// Failures of watches by kind.
    pub watch_errors: IntCounterVec,
    /// Duration of a look at one object, by kind.
    pub reconcile_seconds: HistogramVec,
    /// Looks that failed, by kind.
    pub reconcile_errors: IntCounterVec,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all families.
    ///
    /// # Errors
    /// When the registry has one of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| registered(registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| registered(registry, IntGauge::new(name, help)?);
        let counters = |name: &str, help: &str, label| {
            registered(registry, IntCounterVec::new(Opts::new(name, help), &[label])?)
        };
        let latency = |name: &str, help: &str| HistogramOpts::new(name, help).buckets(LATENCIES.to_vec());
        Ok(Self {
            wake_seconds: registered(
                registry,
                Histogram::with_opts(latency(
                    "rouse_wake_patch_seconds",
                    "From the receipt of a push to the answer to the write of /scale",
                ))?,
            )?,
            probes: counters(
                "rouse_activator_probes_total",
                "Questions whether activators are in the path",
                "answer",
            )?,
            wakes: counters("rouse_wakes_total", "Wakes by outcome", "outcome")?,
            scale_writes: counters("rouse_scale_writes_total", "Writes of /scale by cause", "cause")?,
            push_frames: counter("rouse_push_frames_total", "Push frames taken")?,
            push_frames_bad: counter(
                "rouse_push_frames_bad_total",
                "Push frames or messages dropped as senseless",
            )?,
            push_connections: gauge("rouse_push_connections", "Activators connected")?,
            push_connections_refused: counter(
                "rouse_push_connections_refused_total",
                "Connections that showed no token of an activator",
            )?,
            decision_streams: gauge("rouse_decision_streams", "Decision streams connected")?,
            decisions_dropped: counter("rouse_decisions_dropped_total", "Decision messages dropped")?,
            events_dropped: counter(
                "rouse_events_dropped_total",
                "Events dropped because the queue was full",
            )?,
            paced_seconds: registered(
                registry,
                Counter::new(
                    "rouse_kube_api_paced_seconds_total",
                    "Time that requests to the API server waited because of --kube-api-qps",
                )?,
            )?,
            watch_errors: counters(
                "rouse_watch_errors_total",
                "Failures of watches; they are tried again",
                "kind",
            )?,
            reconcile_seconds: registered(
                registry,
                HistogramVec::new(
                    latency("rouse_reconcile_seconds", "Duration of a look at one object"),
                    &["kind"],
                )?,
            )?,
            reconcile_errors: counters(
                "rouse_reconcile_errors_total",
                "Looks at an object that failed",
                "kind",
            )?,
        })
    }
}

fn registered<C: Collector + Clone + 'static>(
    registry: &Registry,
    family: C,
) -> Result<C, prometheus::Error> {
    registry.register(Box::new(family.clone()))?;
    Ok(family)
}
