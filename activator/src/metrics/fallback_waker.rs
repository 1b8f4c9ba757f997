//! Metrics of the [`FallbackWaker`](crate::fallback_waker::FallbackWaker).

use component_base::metrics::Families;
use prometheus::IntCounter;

/// Handles of the fallback waker.
#[derive(Clone, Debug)]
pub struct FallbackWakerMetrics {
    scaled: IntCounter,
    failed: IntCounter,
}

// === impl FallbackWakerMetrics ===

impl FallbackWakerMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(families: Families<'_>) -> Result<Self, prometheus::Error> {
        let wakes = families.counters(
            "fallback_wakes_total",
            "Attempts to scale a workload from zero while no zero-scaler was reachable, by outcome",
            &["outcome"],
        )?;
        let wakes = |outcome| wakes.with_label_values(&[outcome]);
        Ok(Self { scaled: wakes("scaled"), failed: wakes("failed") })
    }

    /// Counts a workload that was scaled.
    pub fn scaled(&self) {
        self.scaled.inc();
    }

    /// Counts a workload that could not be scaled.
    pub fn failed(&self) {
        self.failed.inc();
    }
}
