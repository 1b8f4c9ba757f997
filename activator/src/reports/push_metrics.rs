//! Metrics of the [`StatReporter`](crate::reports::stat_reporter::StatReporter).

use component_base::metrics::{Families, GaugeGuard};
use prometheus::{IntCounter, IntGauge};

/// Handles of the stat reporter.
#[derive(Clone, Debug)]
pub struct PushMetrics {
    connections: IntGauge,
    dropped: IntCounter,
}

// === impl PushMetrics ===

impl PushMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let connections = families.gauge(
            "push_connections",
            "Connected receivers of reports (metrics-adapters and zero-scalers)",
        )?;
        let dropped = families.counter(
            "pushes_dropped_total",
            "Reports dropped in favour of newer ones, because a receiver was disconnected or slow",
        )?;
        Ok(Self { connections, dropped })
    }

    /// Counts a receiver as connected until the returned value is dropped.
    pub fn connected(&self) -> GaugeGuard {
        GaugeGuard::new(&self.connections)
    }

    /// Counts reports that were dropped.
    pub fn dropped(&self, count: u64) {
        self.dropped.inc_by(count);
    }
}
