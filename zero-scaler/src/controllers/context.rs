//! What all reconcilers share.

use crate::clock::Clock;
use std::fmt;
use std::sync::Arc;

use autoscaler::settings::AutoscalerConfig;
use kube::Client;
use tokio::sync::watch;

use crate::activators::directory::Activators;
use crate::activators::path_verification::PathVerifications;
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::work_queue::WorkQueues;
use crate::kubernetes::event_deduplicator::EventDeduplicator;
use crate::kubernetes::events::Events;
use crate::kubernetes::rate_limit::RateLimit;
use crate::metrics::Metrics;
use crate::pods::start_watch::StartWatches;
use crate::reports::decision_stream::Decisions;
use crate::scaling::overrides::Overrides;
use crate::scaling::scale_targets::ScaleTargets;
use crate::scaling::wake::{CachedWorkloads, WakePath};

/// The wake path over real targets.
pub type ClusterWake = WakePath<ScaleTargets, CachedWorkloads<ScaleTargets>>;

/// What all reconcilers share.
pub struct Context {
    /// The API server, for what callers may wait for.
    pub client: Client,
    /// The API server, for everything else.
    pub rate_limited: Client,
    /// Whose turn it is there.
    pub rate_limit: RateLimit,
    /// What time it is, for objects.
    pub clock: Clock,
    /// Whether activators are in the path.
    pub verifications: PathVerifications,
    /// What the watches know.
    pub cache: Arc<ClusterCache>,
    /// The sizes of targets.
    pub scales: Arc<ScaleTargets>,
    /// What the adapters decided.
    pub decisions: Arc<Decisions>,
    /// Who was asked for, and when.
    pub wake: Arc<ClusterWake>,
    /// Who can hold requests.
    pub activators: Arc<Activators>,
    /// The cluster's settings.
    pub config: watch::Receiver<Arc<AutoscalerConfig>>,
    /// Whether custom.metrics.k8s.io is ours.
    pub custom_metrics: bool,
    /// Where changes are told.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// Who asks for a look.
    pub queues: Arc<WorkQueues>,
    /// Why waking workloads get no pod.
    pub starts: StartWatches,
    /// Sizes written ahead of the HPA.
    pub overrides: Overrides,
    /// Warnings told already, by HPA.
    pub warnings: EventDeduplicator,
    /// Advice told already, by workload.
    pub advice: EventDeduplicator,
    /// Modes told already, by workload.
    pub modes: EventDeduplicator,
}

// === impl Context ===

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// The cluster's settings now in force.
    pub fn config(&self) -> Arc<AutoscalerConfig> {
        self.config.borrow().clone()
    }
}
