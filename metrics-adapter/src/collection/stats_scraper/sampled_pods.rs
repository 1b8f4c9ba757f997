//! SampledPods: the stats that the pods of one round reported.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::{Stat, outliers};
use learning::PodSecond;

use crate::collection::idle_reads::IdleReads;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::watches::pod::Pod;

/// The stats of the pods that answered.
#[derive(Default)]
pub(super) struct SampledPods {
    pub(super) pods: Vec<SocketAddr>,
    /// In the same order.
    pub(super) stats: Vec<Stat>,
    /// Pods that have not completed a first second. They have no stat yet, and the round is
    /// complete without them.
    pub(super) too_young: usize,
}

// === impl SampledPods ===

impl SampledPods {
    pub(super) fn push(&mut self, pod: SocketAddr, stat: Stat) {
        self.pods.push(pod);
        self.stats.push(stat);
    }

    pub(super) fn and(mut self, more: Self) -> Self {
        self.pods.extend(more.pods);
        self.stats.extend(more.stats);
        self.too_young += more.too_young;
        self
    }

    /// Whether no pod has a request. A pod that is too young has no stat yet, so it may be busy.
    pub(super) fn is_idle(&self) -> bool {
        self.too_young == 0 && self.stats.iter().all(Stat::is_idle)
    }

    /// Whether each ready pod is among these reads, or was read without a request in the rounds
    /// before.
    pub(super) fn cover(
        &self,
        ready: &[SocketAddr],
        reads: &mut IdleReads,
        now: Duration,
        window: Duration,
    ) -> bool {
        if self.pods.len() == ready.len() {
            reads.clear();
            return true;
        }
        let idle = self.stats.iter().map(Stat::is_idle);
        reads.record(ready, self.pods.iter().copied().zip(idle), now);
        reads.cover(ready, now, window)
    }

    /// What the pods reported. Pods of unknown age are left out.
    pub(super) fn seconds(
        &self,
        ready: &[Arc<Pod>],
        now: Duration,
        resources: &ResourceReadings,
    ) -> Vec<PodSecond> {
        let stats: HashMap<&SocketAddr, &Stat> = self.pods.iter().zip(&self.stats).collect();
        let second = |pod: &Arc<Pod>| {
            let stat = stats.get(&pod.stats_address()?)?;
            let second = PodSecond::new(stat, now.saturating_sub(pod.ready_since?));
            Some(resources.add_to(second, pod))
        };
        ready.iter().filter_map(second).collect()
    }

    /// The concurrent requests of each pod.
    pub(super) fn loads(&self) -> Vec<(IpAddr, f64)> {
        let loads = self.stats.iter().map(|stat| stat.average_concurrent_requests);
        self.pods.iter().map(SocketAddr::ip).zip(loads).collect()
    }

    pub(super) fn outliers(&self) -> Vec<SocketAddr> {
        outliers(&self.stats).into_iter().filter_map(|sample| self.pods.get(sample).copied()).collect()
    }
}
