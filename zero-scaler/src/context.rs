//! What all reconcilers share.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use autoscaler::config::AutoscalerConfig;
use kube::Client;
use tokio::sync::watch;

use crate::activators::Activators;
use crate::decisions::Decisions;
use crate::events::Events;
use crate::metrics::Metrics;
use crate::objects::Objects;
use crate::pace::Pace;
use crate::pod_autoscaler::Overrides;
use crate::proofs::Proofs;
use crate::scale_target::ScaleTargets;
use crate::start_watch::StartWatches;
use crate::told::Told;
use crate::triggers::Triggers;
use crate::wake::{Wake, Watched};

/// The wake path over real targets.
pub type ClusterWake = Wake<ScaleTargets, Watched<ScaleTargets>>;

/// The wall clock, for objects.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>);

/// What all reconcilers share.
pub struct Context {
    /// The API server, for what callers may wait for.
    pub client: Client,
    /// The API server, for everything else.
    pub paced: Client,
    /// Whose turn it is there.
    pub pace: Pace,
    /// What time it is, for objects.
    pub clock: Clock,
    /// Whether activators are in the path.
    pub proofs: Proofs,
    /// What the watches know.
    pub objects: Arc<Objects>,
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
    pub triggers: Arc<Triggers>,
    /// Why waking workloads get no pod.
    pub starts: StartWatches,
    /// Sizes written ahead of the HPA.
    pub overrides: Overrides,
    /// Warnings told already, by HPA.
    pub warnings: Told,
    /// Advice told already, by workload.
    pub advice: Told,
    /// Modes told already, by workload.
    pub modes: Told,
}

// === impl Clock ===

impl Clock {
    /// The machine's.
    pub fn system() -> Self {
        Self::by(|| jiff::Timestamp::from_millisecond(runtime::clock::unix_millis()).unwrap_or_default())
    }

    /// Another one.
    pub fn by(now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    pub fn now(&self) -> jiff::Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
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

/// The monotonic clock, read at the edge.
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
