//! WorkloadsAtZero: the workloads that a held request may scale, and their first size.

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::{PodAutoscaler, ScaleTargetRef};
use autoscaler::scaling::scale_bounds::ScaleBounds;
use autoscaler::scaling::scale_to_zero::is_allowed;
use autoscaler::settings::{AutoscalerConfig, Settings};
use kube::ResourceExt;
use tokio::sync::watch;

use crate::cache::cached_target::scale::Scale;
use crate::cache::cluster_cache::ClusterCache;
use crate::clock::Clock;
use crate::kubernetes::conditions::{self, INITIALIZED};
use crate::scaling::scale_targets::ScaleAccess;

/// A workload that a request may scale from zero.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadAtZero {
    pub target: ScaleTargetRef,
    /// The replica count to write.
    pub size: i32,
    /// The cached scale; `None` if it has to be read.
    pub scale: Option<Scale>,
    /// The object of the events.
    pub autoscaler: Arc<PodAutoscaler>,
}

/// Looks up workloads. A trait, so that tests need no watches.
pub trait WorkloadsAtZero: Send + Sync + 'static {
    /// Whether the workload exists.
    fn exists(&self, key: &Key) -> bool;
    /// The workload, if it is at zero, may be scaled to zero by Rouse, and is not paused.
    fn at_zero(&self, key: &Key) -> Option<WorkloadAtZero>;
}

#[derive(Debug)]
pub struct CachedWorkloads<S> {
    /// PodAutoscalers and ServerlessServices.
    pub cache: Arc<ClusterCache>,
    /// Replica counts of the targets.
    pub scales: Arc<S>,
    pub config: watch::Receiver<Arc<AutoscalerConfig>>,
    /// For the end of a pause.
    pub clock: Clock,
}

// === impl CachedWorkloads ===

impl<S: ScaleAccess> WorkloadsAtZero for CachedWorkloads<S> {
    fn exists(&self, key: &Key) -> bool {
        self.cache.autoscaler_meta(key).is_some()
    }

    fn at_zero(&self, key: &Key) -> Option<WorkloadAtZero> {
        let autoscaler = self.cache.autoscaler(key)?;
        let target = autoscaler.spec.scale_target_ref.clone();
        let scale = self.scales.cached(&key.namespace, &target);
        let replicas = scale
            .as_ref()
            .map(|s| s.replicas)
            .or_else(|| autoscaler.status.as_ref().and_then(|s| s.replicas));
        let config = self.config.borrow().clone();
        let (settings, _) = autoscaler.spec.settings(&config, autoscaler.annotations());
        // The cache has the annotation before the ServerlessService that follows from it.
        let is_paused = settings.scale.pause.is_in_force(self.clock.now().as_millisecond())
            || self.cache.serverless_service(key).is_some_and(|sks| sks.spec.paused);
        if replicas != Some(0) || is_paused || !is_allowed(autoscaler.spec.scale_to_zero, &settings) {
            return None;
        }
        Some(WorkloadAtZero { target, size: first_size(&autoscaler, &settings), scale, autoscaler })
    }
}

/// The replica count of a wake, before there is a decision.
pub fn first_size(autoscaler: &PodAutoscaler, settings: &Settings) -> i32 {
    let bounds = ScaleBounds::new(settings, conditions::is_true(conditions::of(autoscaler), INITIALIZED));
    i32::try_from(bounds.above_zero(settings.scale.activation)).unwrap_or(i32::MAX)
}
