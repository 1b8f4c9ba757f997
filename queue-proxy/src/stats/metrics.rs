//! The sidecar's Prometheus metrics.

use std::time::Duration;

use component_base::metrics::GaugeGuard;
use http::StatusCode;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use proxy::memory::descriptors;
use proxy::tcp::{ConnectionCounters, ConnectionOutcome};

/// Knative's bounds, in seconds, so that dashboards of both are comparable.
const DURATION_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Metrics of requests. The handles are resolved once, so a request costs one increment and one
/// observation.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// In the order of [`RequestOutcome::ALL`].
    requests: [IntCounter; RequestOutcome::ALL.len()],
    duration: Histogram,
    in_flight: IntGauge,
    queue_depth: IntGauge,
}

/// Metrics of a full memory budget.
#[derive(Clone, Debug)]
pub(crate) struct MemoryMetrics {
    pub(crate) refused_connections: IntCounter,
    pub(crate) refused_requests: IntCounter,
    pub(crate) closed_idle_connections: IntCounter,
}

/// Metrics of connections to an app that does not use HTTP.
#[derive(Clone, Debug)]
pub(crate) struct TcpMetrics {
    connections: ConnectionCounters,
    open: IntGauge,
}

/// How a request ended: the class of its status, or cancelled by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
    Cancelled,
}

/// A registry with every metric family of the sidecar, for the reference documentation.
///
/// # Errors
/// When two metrics have the same name.
pub fn registry_with_all_families() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    Metrics::register(&registry)?;
    TcpMetrics::register(&registry)?;
    MemoryMetrics::register(&registry)?;
    register_build_info(&registry)?;
    register_descriptor_limit(&registry, 0)?;
    Ok(registry)
}

/// Registers the gauge of the running version.
pub(crate) fn register_build_info(registry: &Registry) -> Result<(), prometheus::Error> {
    component_base::metrics::register_build_info(registry, "queue-proxy", env!("CARGO_PKG_VERSION"))
}

/// Registers the gauge of the limit of open files.
pub(crate) fn register_descriptor_limit(registry: &Registry, limit: u64) -> Result<(), prometheus::Error> {
    descriptors::register_limit(registry, "rouse_queue_proxy_descriptor_limit", limit)
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new("rouse_queue_proxy_requests_total", "Completed requests by status class"),
            &["code_class"],
        )?;
        let duration = Histogram::with_opts(
            HistogramOpts::new(
                "rouse_queue_proxy_request_duration_seconds",
                "Request duration from arrival to the end of the response body, including queueing",
            )
            .buckets(DURATION_BOUNDS.to_vec()),
        )?;
        let in_flight = IntGauge::new(
            "rouse_queue_proxy_requests_in_flight",
            "Requests in the sidecar, queued or forwarded",
        )?;
        let queue_depth = IntGauge::new("rouse_queue_proxy_queue_depth", "Requests queued for the app")?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(queue_depth.clone()))?;
        let requests = RequestOutcome::ALL.map(|outcome| requests.with_label_values(&[outcome.label()]));
        Ok(Self { requests, duration, in_flight, queue_depth })
    }

    /// Counts a completed request and its duration.
    pub(crate) fn count(&self, outcome: RequestOutcome, duration: Duration) {
        if let Some(requests) = self.requests.get(outcome as usize) {
            requests.inc();
        }
        self.duration.observe(duration.as_secs_f64());
    }

    /// Sets the gauges before a scrape.
    pub(crate) fn sample(&self, in_flight: u64, queued: usize) {
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        self.queue_depth.set(i64::try_from(queued).unwrap_or(i64::MAX));
    }
}

// === impl MemoryMetrics ===

impl MemoryMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let memory_full = IntCounterVec::new(
            Opts::new(
                "rouse_queue_proxy_memory_full_total",
                "Connections closed and requests rejected because the memory budget was full, by kind",
            ),
            &["kind"],
        )?;
        registry.register(Box::new(memory_full.clone()))?;
        let of = |kind| memory_full.with_label_values(&[kind]);
        Ok(Self {
            refused_connections: of("connection"),
            refused_requests: of("request"),
            closed_idle_connections: of("idle_connection"),
        })
    }
}

// === impl TcpMetrics ===

impl TcpMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let connections = IntCounterVec::new(
            Opts::new("rouse_queue_proxy_tcp_connections_total", "Closed TCP connections by outcome"),
            &["outcome"],
        )?;
        let open = IntGauge::new("rouse_queue_proxy_tcp_connections", "TCP connections relayed to the app")?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(open.clone()))?;
        let connections = ConnectionCounters::new(|outcome| connections.with_label_values(&[outcome]));
        Ok(Self { connections, open })
    }

    pub(crate) fn count(&self, outcome: ConnectionOutcome) {
        self.connections.count(outcome);
    }

    /// Counts a connection as open until the guard is dropped.
    pub(crate) fn track_open(&self) -> GaugeGuard {
        GaugeGuard::new(&self.open)
    }
}

// === impl RequestOutcome ===

impl RequestOutcome {
    const ALL: [Self; 6] = [
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Cancelled,
    ];

    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            100..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            _ => Self::ServerError,
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
            Self::Cancelled => "cancelled",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_outcome_under_its_label() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.count(RequestOutcome::of_status(StatusCode::BAD_GATEWAY), Duration::from_millis(3));
        metrics.count(RequestOutcome::Cancelled, Duration::from_millis(3));
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "rouse_queue_proxy_requests_total{code_class=\"5xx\"} 1",
            "rouse_queue_proxy_requests_total{code_class=\"cancelled\"} 1",
            "rouse_queue_proxy_requests_total{code_class=\"2xx\"} 0",
            "rouse_queue_proxy_request_duration_seconds_count 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
