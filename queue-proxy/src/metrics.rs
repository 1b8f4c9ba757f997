//! What Prometheus sees of a sidecar: requests by outcome, how long they took, how many are here and how many wait.

use std::time::Duration;

use http::StatusCode;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use proxy::tcp::{ConnectionCounters, ConnectionOutcome};
use runtime::metrics::GaugeGuard;

/// Knative's bounds, in seconds, so that dashboards compare.
const DURATION_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// Handles, resolved once: a request costs one increment and one observation.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// In the order of [`Outcome::ALL`].
    requests: [IntCounter; Outcome::ALL.len()],
    duration: Histogram,
    in_flight: IntGauge,
    queue_depth: IntGauge,
}

/// Handles of connections that are not HTTP's.
#[derive(Clone, Debug)]
pub(crate) struct TcpMetrics {
    connections: ConnectionCounters,
    open: IntGauge,
}

/// How a request ended: the class of its status, or without one because its caller went away first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
    Cancelled,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new(
                "rouse_queue_proxy_requests_total",
                "Requests that have ended, by class of their status",
            ),
            &["code_class"],
        )?;
        let duration = Histogram::with_opts(
            HistogramOpts::new(
                "rouse_queue_proxy_request_duration_seconds",
                "Time from a request's arrival to the end of its response body, waiting included",
            )
            .buckets(DURATION_BOUNDS.to_vec()),
        )?;
        let in_flight =
            IntGauge::new("rouse_queue_proxy_requests_in_flight", "Requests here, waiting or with the app")?;
        let queue_depth = IntGauge::new("rouse_queue_proxy_queue_depth", "Requests that wait for the app")?;
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(duration.clone()))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(queue_depth.clone()))?;
        let requests = Outcome::ALL.map(|outcome| requests.with_label_values(&[outcome.label()]));
        Ok(Self { requests, duration, in_flight, queue_depth })
    }

    pub(crate) fn ended(&self, outcome: Outcome, after: Duration) {
        if let Some(requests) = self.requests.get(outcome as usize) {
            requests.inc();
        }
        self.duration.observe(after.as_secs_f64());
    }

    /// Sets what is known elsewhere; called when somebody looks.
    pub(crate) fn sample(&self, in_flight: u64, queued: usize) {
        self.in_flight.set(i64::try_from(in_flight).unwrap_or(i64::MAX));
        self.queue_depth.set(i64::try_from(queued).unwrap_or(i64::MAX));
    }
}

// === impl TcpMetrics ===

impl TcpMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let connections = IntCounterVec::new(
            Opts::new("rouse_queue_proxy_tcp_connections_total", "Connections that have ended, by how"),
            &["outcome"],
        )?;
        let open = IntGauge::new("rouse_queue_proxy_tcp_connections", "Connections that are with the app")?;
        registry.register(Box::new(connections.clone()))?;
        registry.register(Box::new(open.clone()))?;
        let connections = ConnectionCounters::new(|outcome| connections.with_label_values(&[outcome]));
        Ok(Self { connections, open })
    }

    pub(crate) fn ended(&self, outcome: ConnectionOutcome) {
        self.connections.count(outcome);
    }

    /// A connection is with the app, until this is dropped.
    pub(crate) fn open(&self) -> GaugeGuard {
        GaugeGuard::new(&self.open)
    }
}

// === impl Outcome ===

impl Outcome {
    const ALL: [Self; 6] = [
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
        Self::Cancelled,
    ];

    pub(crate) fn of(status: StatusCode) -> Self {
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
    fn an_outcome_counts_under_its_own_label() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.ended(Outcome::of(StatusCode::BAD_GATEWAY), Duration::from_millis(3));
        metrics.ended(Outcome::Cancelled, Duration::from_millis(3));
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
