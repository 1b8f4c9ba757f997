//! The activator's metric families, all named `rouse_activator_*`.

pub mod fallback_waker;
pub mod slot_exchange;
pub mod traces;
pub mod workload;

use std::sync::Arc;

use autoscaler::Key;
use component_base::kubernetes::DecodeErrors;
use component_base::metrics::Families;
use prometheus::Registry;
use proxy::memory::descriptors;

use crate::metrics::fallback_waker::FallbackWakerMetrics;
use crate::metrics::slot_exchange::SlotExchangeMetrics;
use crate::metrics::traces::TraceMetrics;
use crate::metrics::workload::{LazyMetrics, WorkloadFamilies};
use crate::reports::push_metrics::PushMetrics;

/// Name of the component in metrics.
const COMPONENT: &str = "activator";

/// A registry with every family of the process, for the reference page of metrics.
///
/// # Errors
/// When two families have the same name.
pub fn registry_with_all_families() -> Result<Registry, prometheus::Error> {
    let registry = Registry::new();
    component_base::metrics::register_build_info(&registry, COMPONENT, env!("CARGO_PKG_VERSION"))?;
    register_descriptor_limit(&registry, 0)?;
    let metrics = Metrics::register(&registry)?;
    metrics.of_workload(&Key::new("namespace", "name")).get().touch_all();
    metrics.decode_errors.of("Pod");
    Ok(registry)
}

/// Registers the gauge of the limit of open files.
///
/// # Errors
/// When it is registered already.
pub fn register_descriptor_limit(registry: &Registry, limit: u64) -> Result<(), prometheus::Error> {
    descriptors::register_limit(registry, "rouse_activator_descriptor_limit", limit)
}

/// All families.
#[derive(Clone, Debug)]
pub struct Metrics {
    workloads: WorkloadFamilies,
    pub push: PushMetrics,
    pub slot_exchange: SlotExchangeMetrics,
    /// Wakes by the fallback waker.
    pub fallback_waker: FallbackWakerMetrics,
    pub traces: TraceMetrics,
    pub decode_errors: DecodeErrors,
}

// === impl Metrics ===

impl Metrics {
    /// Registers all families.
    ///
    /// # Errors
    /// When the registry has one of these metrics already.
    pub fn register(registry: &Registry) -> Result<Arc<Self>, prometheus::Error> {
        let families = Families { registry, component: COMPONENT };
        Ok(Arc::new(Self {
            workloads: WorkloadFamilies::register(families)?,
            push: PushMetrics::register(families)?,
            slot_exchange: SlotExchangeMetrics::register(families)?,
            fallback_waker: FallbackWakerMetrics::register(families)?,
            traces: TraceMetrics::register(families)?,
            decode_errors: DecodeErrors::register(registry, COMPONENT)?,
        }))
    }

    /// The metrics of one workload.
    pub fn of_workload(&self, key: &Key) -> LazyMetrics {
        LazyMetrics::new(self.workloads.clone(), key.clone())
    }

    /// Removes the series of a workload that was deleted.
    pub fn remove_workload(&self, key: &Key) {
        self.workloads.remove(key);
    }
}
