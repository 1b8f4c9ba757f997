//! WorkloadProber: probes the pods of one workload that are not usable, while it has requests.
//!
//! Input: the pods that [`WorkloadPods`] has not probed, and the number of requests. A verified pod
//! becomes usable, which grants its slots to the requests that wait.

use std::sync::Arc;

use tokio::time::Instant;

use crate::pods::pod_tracker::PodTracker;
use crate::pods::prober;
use crate::queue::context::ThrottlerContext;
use crate::queue::workload_pods::WorkloadPods;
use crate::reports::request_counter::RequestCounter;

/// Starts the probes of one workload. Clones are the same prober.
#[derive(Clone, Debug)]
pub struct WorkloadProber {
    context: Arc<ThrottlerContext>,
    counter: Arc<RequestCounter>,
    pods: Arc<WorkloadPods>,
}

// === impl WorkloadProber ===

impl WorkloadProber {
    /// Probes `pods` while `counter` has requests.
    pub(super) fn new(
        context: Arc<ThrottlerContext>,
        counter: Arc<RequestCounter>,
        pods: Arc<WorkloadPods>,
    ) -> Self {
        Self { context, counter, pods }
    }

    /// Starts probes of pods that are not usable, if there are requests for them. To be called
    /// after a request was counted.
    pub fn probe_if_wanted(&self) {
        if !self.pods.has_unprobed() || !self.is_wanted() {
            return;
        }
        for pod in self.pods.take_unprobed() {
            tokio::spawn(self.clone().probe(pod));
        }
    }

    #[tracing::instrument(level = "debug", skip_all, fields(workload = %self.pods.key(), pod = %pod.ip))]
    async fn probe(self, pod: Arc<PodTracker>) {
        loop {
            let verified = tokio::select! {
                () = pod.removed() => return,
                verified = self.probe_until_ready(&pod) => verified,
            };
            if !verified && self.is_wanted() && pod.probe().is_some() {
                continue;
            }
            tracing::debug!(verified, "probe ended");
            self.pods.change(|pods| {
                if verified {
                    pods.mark_usable(&pod, Instant::now());
                }
                pods.probe_ended(&pod);
            });
            // It may have got a probe since, while it still counted as probed.
            return self.probe_if_wanted();
        }
    }

    async fn probe_until_ready(&self, pod: &PodTracker) -> bool {
        let queue_proxy = pod.queue_proxy(self.pods.settings().ports.first());
        prober::probe_until_ready(&self.context.prober, pod, queue_proxy, || self.is_wanted()).await
    }

    fn is_wanted(&self) -> bool {
        self.counter.in_flight() > 0
    }
}
