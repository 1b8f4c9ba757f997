//! Metrics that every component has.

mod families;

use prometheus::{IntGauge, Opts, Registry};

pub use families::Families;

/// The name of a metric: `rouse_<component>_<suffix>`, with `component` as in labels of Kubernetes
/// objects.
pub fn metric_name(component: &str, suffix: &str) -> String {
    format!("rouse_{}_{suffix}", component.replace('-', "_"))
}

/// Registers `rouse_<component>_build_info{version} 1`.
///
/// # Errors
/// When the registry has it already.
pub fn register_build_info(
    registry: &Registry,
    component: &str,
    version: &str,
) -> Result<(), prometheus::Error> {
    let opts =
        Opts::new(metric_name(component, "build_info"), "Version of this process, in the labels; always 1")
            .const_label("version", version);
    let gauge = IntGauge::with_opts(opts)?;
    gauge.set(1);
    registry.register(Box::new(gauge))
}

/// Increments a gauge until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

// === impl GaugeGuard ===

impl GaugeGuard {
    /// Increments `gauge`.
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
