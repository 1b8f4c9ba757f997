//! A constant gauge that says which build is running.

use prometheus::{IntGauge, Opts, Registry};

/// Registers `rouse_build_info{component, version} 1`.
///
/// # Errors
/// When the registry has one already.
pub fn register(registry: &Registry, component: &str, version: &str) -> Result<(), prometheus::Error> {
    let opts = Opts::new("rouse_build_info", "1; the labels say which build this is")
        .const_label("component", component)
        .const_label("version", version);
    let gauge = IntGauge::with_opts(opts)?;
    gauge.set(1);
    registry.register(Box::new(gauge))
}
