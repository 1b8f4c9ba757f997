//! Context: the clients, caches and settings that all reconcilers share.

use std::fmt;
use std::sync::Arc;

use autoscaler::settings::AutoscalerConfig;
use tokio::sync::watch;

use crate::activators::directory::Activators;
use crate::activators::path_verification::PathVerifications;
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::work_queue::WorkQueues;
use crate::clock::Clock;
use crate::kubernetes::event_deduplicator::EventDeduplicator;
use crate::kubernetes::events::Events;
use crate::kubernetes::rate_limit::{RateLimit, RateLimitedClient, UrgentClient};
use crate::metrics::Metrics;
use crate::pods::start_watch::StartWatches;
use crate::pods::wake_checks::WakeChecks;
use crate::reports::decision_stream::Decisions;
use crate::reports::reported_targets::ReportedTargets;
use crate::scaling::first_seen::FirstSeen;
use crate::scaling::overrides::Overrides;
use crate::scaling::scale_targets::ScaleTargets;
use crate::scaling::size_conflicts::SizeConflicts;
use crate::scaling::wake::WakePath;
use crate::scaling::workloads_at_zero::CachedWorkloads;

/// The wake path over real targets.
pub type ClusterWake = WakePath<ScaleTargets, CachedWorkloads<ScaleTargets>>;

/// Shared by all reconcilers. Each group has what one concern needs.
pub struct Context {
    /// Clients of the API server.
    pub clients: Clients,
    /// Copies of cluster objects.
    pub cache: Arc<ClusterCache>,
    pub config: watch::Receiver<Arc<AutoscalerConfig>>,
    /// Whether the metrics-adapter serves custom.metrics.k8s.io.
    pub custom_metrics: bool,
    /// Wall-clock time, for fields of objects.
    pub clock: Clock,
    /// How many pods a workload has and should have.
    pub scaling: Scaling,
    /// Where requests of a Service go.
    pub routing: Routing,
    /// What users read.
    pub reports: Reports,
    /// Metrics of this process.
    pub metrics: Metrics,
    /// Objects to reconcile.
    pub queues: Arc<WorkQueues>,
}

/// Clients of the API server, by the importance of what they write.
pub struct Clients {
    /// For writes that held requests depend on.
    pub urgent: UrgentClient,
    /// For all other writes.
    pub rate_limited: RateLimitedClient,
    /// The limit of `rate_limited`.
    pub rate_limit: RateLimit,
}

/// Sizes of workloads: what they are, what they should be, and how they are written.
pub struct Scaling {
    pub scales: Arc<ScaleTargets>,
    /// Decisions of the metrics-adapters.
    pub decisions: Arc<Decisions>,
    /// Wakes workloads for held requests.
    pub wake: Arc<ClusterWake>,
    /// Since when this process observes the conditions of workloads.
    pub first_seen: FirstSeen,
    /// Sizes written ahead of the HPA.
    pub overrides: Overrides,
    /// Sizes that another controller reverts.
    pub size_conflicts: SizeConflicts,
    /// Watches of pods that do not start.
    pub starts: StartWatches,
    /// Whether pods would start again after zero.
    pub wake_checks: WakeChecks,
}

/// The route of requests, through activators or straight to pods.
pub struct Routing {
    /// The ready activators.
    pub activators: Arc<Activators>,
    /// Whether Services lead to activators.
    pub verifications: PathVerifications,
}

/// Events on the objects of users, and the last ones, so that none is repeated.
pub struct Reports {
    /// Writes events.
    pub events: Events,
    /// The last warning event of each HPA.
    pub warnings: EventDeduplicator,
    /// The last advice event of each workload.
    pub advice: EventDeduplicator,
    /// The last mode event of each workload.
    pub modes: EventDeduplicator,
    /// The learned target in the last event of each workload.
    pub learned_targets: ReportedTargets,
}

// === impl Context ===

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

impl Context {
    /// The cluster's settings in force.
    pub fn config(&self) -> Arc<AutoscalerConfig> {
        self.config.borrow().clone()
    }
}

// === impl Reports ===

impl Reports {
    /// Nothing was reported yet.
    pub fn new(events: Events) -> Self {
        Self {
            events,
            warnings: EventDeduplicator::default(),
            advice: EventDeduplicator::default(),
            modes: EventDeduplicator::default(),
            learned_targets: ReportedTargets::default(),
        }
    }
}
