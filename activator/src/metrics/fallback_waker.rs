//! Metrics of the [`FallbackWaker`](crate::fallback_waker::FallbackWaker).

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// Handles of the fallback waker.
#[derive(Clone, Debug)]
pub struct FallbackWakerMetrics {
    scaled: IntCounter,
    failed: IntCounter,
}

// === impl FallbackWakerMetrics ===

impl FallbackWakerMetrics {
    /// Registers the family.
    ///
    /// # Errors
    /// When the registry has it already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let wakes = IntCounterVec::new(
            Opts::new(
                "rouse_activator_fallback_wakes_total",
                "Attempts to scale a workload from zero while no zero-scaler was reachable, by outcome",
            ),
            &["outcome"],
        )?;
        registry.register(Box::new(wakes.clone()))?;
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
