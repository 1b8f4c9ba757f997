//! Raised: what is there now, as a gauge.

use prometheus::IntGauge;

/// Keeps a gauge raised by one until it is dropped.
#[derive(Debug)]
pub struct Raised(IntGauge);

// === impl Raised ===

impl Raised {
    /// From now on.
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.0.dec();
    }
}
