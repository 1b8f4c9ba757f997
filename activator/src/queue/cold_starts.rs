//! ColdStarts: what the held requests of one workload waited for.
//!
//! Input: answered requests that were held, and the starts of pods. Output: traces for the response
//! and the metrics, reports of slow wakes, and one report for each wake.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::WakeReport;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::metrics::workload::LazyMetrics;
use crate::pods::pod_starts::PodStarts;
use crate::pods::pod_tracker::PodTracker;
use crate::queue::context::ThrottlerContext;
use crate::queue::workload_pods::WorkloadPods;
use crate::reports::cold_start::{ColdStartTrace, SlowWakeReporter, WakeReporter};
use crate::reports::request_counter::RequestCounter;

/// The cold starts of one workload.
#[derive(Debug)]
pub struct ColdStarts {
    context: Arc<ThrottlerContext>,
    counter: Arc<RequestCounter>,
    pods: Arc<WorkloadPods>,
    metrics: Arc<LazyMetrics>,
    pod_starts: PodStarts,
    slow_wakes: SlowWakeReporter,
    wakes: WakeReporter,
    last_wake: Mutex<Option<Duration>>,
}

// === impl ColdStarts ===

impl ColdStarts {
    /// None so far.
    pub(super) fn new(
        context: Arc<ThrottlerContext>,
        counter: Arc<RequestCounter>,
        pods: Arc<WorkloadPods>,
        metrics: Arc<LazyMetrics>,
    ) -> Self {
        Self {
            context,
            counter,
            pods,
            metrics,
            pod_starts: PodStarts::default(),
            slow_wakes: SlowWakeReporter::default(),
            wakes: WakeReporter::default(),
            last_wake: Mutex::default(),
        }
    }

    /// Pods that had no address when they were seen first.
    pub fn pod_starts(&self) -> &PodStarts {
        &self.pod_starts
    }

    /// How long the last wake took, from its report to a pod that took requests; `None` before one.
    pub fn last_wake(&self) -> Option<Duration> {
        *self.last_wake.lock()
    }

    /// Traces a request that was held and is answered now; returns the trace for its client.
    pub fn trace(&self, received: Instant, pod: &PodTracker, forwarded: Instant) -> ColdStartTrace {
        let (poke, start) = (self.counter.poke(), self.pod_starts.of(&pod.uid));
        let trace = ColdStartTrace::of(received, poke, start, pod, forwarded);
        self.metrics.get().cold_start(&trace);
        let key = self.pods.key();
        if let Some(slow) = self.slow_wakes.check(&trace, self.context.limits.slow_wake, key) {
            self.context.reporter.slow_wake(slow);
        }
        let had_no_pod = || self.pods.queue().with_pods(|pods| pods.are_all_newer_than(received));
        if self.wakes.is_first(&trace, had_no_pod) {
            let took = trace.poked.map(|poked| trace.verified.saturating_duration_since(poked));
            *self.last_wake.lock() = took;
            let wake = trace.wake(component_base::clock::unix_millis());
            self.context.reporter.wake(WakeReport { key: key.clone(), wake });
        }
        trace
    }
}
