//! Drain: the order in which an activator ends.
//!
//! ```text
//! SIGTERM ─► not ready, "Connection: close" ─► no new connection for the grace period ─► listeners
//!   close, requests end ─► exit
//! ```
//!
//! Held requests are served until the end: watches, probes and pushes run as long as the last of
//! them. Those for which the drain is too short are rejected just before it ends. A drain takes
//! less than configured where the kubelet gives less.

use std::sync::atomic::Ordering;

use component_base::readiness::Readiness;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::drain_times::DrainTimes;
use crate::app::own_pod::OwnPod;
use crate::args::Limits;
use crate::requests::context::RequestContext;

/// The part of a drain that is left for responses to requests that no pod took.
const LAST_RESPONSES: u32 = 20;

/// What a drain changes, and what bounds it.
#[derive(Debug)]
pub(crate) struct Drain<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) requests: &'a RequestContext,
    pub(crate) own_pod: Option<&'a OwnPod>,
    pub(crate) readiness: &'a Readiness,
}

// === impl Drain ===

impl Drain<'_> {
    /// Cancels `close` when no new connection is accepted, and `hold_end` when no request may wait
    /// for a pod any more. Completes with the last connection.
    pub(crate) async fn run(
        self,
        close: &CancellationToken,
        connections: &TaskTracker,
        hold_end: &CancellationToken,
    ) {
        self.readiness.drain();
        self.requests.draining.store(true, Ordering::Relaxed);
        let DrainTimes { accepting, ending } = self.times().await;
        self.requests.arrivals.wait_for_quiet(self.limits.drain_grace.min(accepting), accepting).await;
        close.cancel();
        connections.close();
        // Requests may wait for a pod for longer than a drain takes. They get a response before it
        // ends. A longer drain would also delay the moment at which an activator that does not
        // report is given up (`autoscaler::stats::reporters`).
        if timeout(ending - ending / LAST_RESPONSES, connections.wait()).await.is_err() {
            hold_end.cancel();
        }
        // Each listener bounds its own end.
        connections.wait().await;
        tracing::info!("drain completed");
    }

    async fn times(&self) -> DrainTimes {
        let grace_period = match self.own_pod {
            Some(pod) => pod.grace_period().await,
            None => None,
        };
        DrainTimes::new(self.limits, grace_period)
    }
}
