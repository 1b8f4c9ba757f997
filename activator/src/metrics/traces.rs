//! Metrics of the export of [traces](crate::traces).

use component_base::metrics::Families;
use prometheus::IntCounter;

/// Handles of the export.
#[derive(Clone, Debug)]
pub struct TraceMetrics {
    exported: IntCounter,
    failed: IntCounter,
    dropped: IntCounter,
    over_rate: IntCounter,
}

// === impl TraceMetrics ===

impl TraceMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let spans = families.counters(
            "spans_total",
            "Spans by outcome: exported, failed (the collector did not take them) or dropped (the queue was full)",
            &["outcome"],
        )?;
        let over_rate = families.counter(
            "traces_over_rate_total",
            "Sampled requests without spans, because a second had its ten traces",
        )?;
        let [exported, failed, dropped] =
            ["exported", "failed", "dropped"].map(|outcome| spans.with_label_values(&[outcome]));
        Ok(Self { exported, failed, dropped, over_rate })
    }

    /// Counts the spans of a batch, which the collector took or did not.
    pub fn exported(&self, count: usize, is_taken: bool) {
        let counter = if is_taken { &self.exported } else { &self.failed };
        counter.inc_by(count as u64);
    }

    /// Counts a span for which the queue had no place.
    pub fn dropped(&self) {
        self.dropped.inc();
    }

    /// Counts a sampled request without a trace.
    pub fn over_rate(&self) {
        self.over_rate.inc();
    }
}
