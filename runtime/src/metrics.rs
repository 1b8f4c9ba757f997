//! A constant gauge that says which build is running.

use prometheus::{IntGauge, Opts, Registry};

pub use crate::metric_description::{MetricDescription, MetricKind};

/// Registers `rouse_build_info{component, version} 1`.
///
/// # Errors
/// When the registry has one already.
pub fn register_build_info(
    registry: &Registry,
    component: &str,
    version: &str,
) -> Result<(), prometheus::Error> {
    let opts = Opts::new("rouse_build_info", "1; the labels say which build this is")
        .const_label("component", component)
        .const_label("version", version);
    let gauge = IntGauge::with_opts(opts)?;
    gauge.set(1);
    registry.register(Box::new(gauge))
}

/// Keeps a gauge raised by one until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

// === impl GaugeGuard ===

impl GaugeGuard {
    /// From now on.
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
