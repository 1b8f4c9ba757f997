//! ReplicaSet: the scale subresource, and the pods that follow it.
//!
//! The HPA and the zero-scaler write it. Each change is kept with its writer, for the assertions of
//! the tests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Time;
use crate::workload::pod::{Pod, PodId, PodPhase};

/// The scale target.
#[derive(Debug)]
pub struct ReplicaSet {
    pods: BTreeMap<PodId, Pod>,
    container_concurrency: u32,
    next_id: PodId,
    spec: u32,
    version: u64,
    changes: Vec<SizeChange>,
    /// The largest number of requests in a deleted pod's app at a time.
    most_running: usize,
}

/// A change of `spec.replicas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeChange {
    /// Time of the write.
    pub at: Time,
    /// The size before.
    pub from: u32,
    /// The size after.
    pub to: u32,
    /// The component that wrote it.
    pub writer: Writer,
    /// The desired size of the newest decision.
    pub desired: Option<u32>,
    /// Whether the decider was in panic mode.
    pub panicking: bool,
}

/// A component that writes sizes, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Hpa,
    /// The zero-scaler, for an activator's report: the first pods of a workload at zero.
    Wake,
    /// The zero-scaler: the decider wants pods for a workload at zero.
    Wanted,
    /// The zero-scaler, ahead of the HPA in panic.
    Panic,
    /// The zero-scaler, in place of an HPA.
    Direct,
    /// The zero-scaler: no requests.
    Idle,
}

/// Pods that a write affects.
#[derive(Debug, Default)]
pub struct PodChanges {
    /// Pods that were created.
    pub created: Vec<PodId>,
    /// Pods that begin to terminate.
    pub terminated: Vec<PodId>,
}

// === impl ReplicaSet ===

impl ReplicaSet {
    /// A target of this size with all pods ready.
    pub fn new(size: u32, container_concurrency: u32) -> Self {
        let mut replicas = Self {
            pods: BTreeMap::new(),
            container_concurrency,
            next_id: 0,
            spec: size,
            version: 0,
            changes: Vec::new(),
            most_running: 0,
        };
        for id in replicas.create(size, Duration::ZERO) {
            replicas.become_ready(id, Duration::ZERO);
        }
        replicas
    }

    /// Writes `spec.replicas`, creates or terminates pods, and records the change.
    pub fn write(&mut self, change: SizeChange) -> PodChanges {
        self.version += 1;
        self.spec = change.to;
        self.changes.push(change);
        let alive = u32::try_from(self.alive()).unwrap_or(u32::MAX);
        let created = self.create(change.to.saturating_sub(alive), change.at);
        let terminated = self.victims(alive.saturating_sub(change.to) as usize);
        for id in &terminated {
            self.terminate(*id);
        }
        PodChanges { created, terminated }
    }

    /// Marks a pod as ready. False if it is deleted or terminating.
    pub fn become_ready(&mut self, id: PodId, now: Time) -> bool {
        let Some(pod) = self.pods.get_mut(&id) else { return false };
        pod.become_ready(now);
        pod.is_ready()
    }

    /// Deletes a terminating pod without requests.
    pub fn remove_if_drained(&mut self, id: PodId) {
        let drained = |pod: &Pod| pod.phase() == PodPhase::Terminating && pod.running() + pod.waiting() == 0;
        if self.pods.get(&id).is_some_and(drained)
            && let Some(pod) = self.pods.remove(&id)
        {
            self.most_running = self.most_running.max(pod.most_running());
        }
    }

    /// The pod of this number.
    pub fn pod(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(&id)
    }

    pub fn pod_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.pods.get_mut(&id)
    }

    /// All pods, terminating ones included.
    pub fn pods(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        self.pods.iter().map(|(id, pod)| (*id, pod))
    }

    /// All pods, terminating ones included.
    pub fn pods_mut(&mut self) -> impl Iterator<Item = (PodId, &mut Pod)> {
        self.pods.iter_mut().map(|(id, pod)| (*id, pod))
    }

    pub fn ready(&self) -> Vec<PodId> {
        self.pods().filter(|(_, pod)| pod.is_ready()).map(|(id, _)| id).collect()
    }

    /// `spec.replicas`.
    pub fn spec(&self) -> u32 {
        self.spec
    }

    /// `status.replicas`: pods that are not terminating, ready or not.
    pub fn alive(&self) -> usize {
        self.pods.values().filter(|pod| pod.phase() != PodPhase::Terminating).count()
    }

    /// Increases with each write.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn changes(&self) -> &[SizeChange] {
        &self.changes
    }

    /// The largest number of requests in any pod's app at a time, deleted pods included.
    pub fn most_running(&self) -> usize {
        self.pods.values().map(Pod::most_running).fold(self.most_running, usize::max)
    }

    fn create(&mut self, count: u32, now: Time) -> Vec<PodId> {
        let first = self.next_id;
        self.next_id += PodId::from(count);
        let ids: Vec<_> = (first..self.next_id).collect();
        self.pods.extend(ids.iter().map(|id| (*id, Pod::new(self.container_concurrency, now))));
        ids
    }

    /// The order of the ReplicaSet controller: pods that are not ready, then the newest ready ones.
    fn victims(&self, count: usize) -> Vec<PodId> {
        let mut alive: Vec<_> = self.pods().filter(|(_, pod)| pod.phase() != PodPhase::Terminating).collect();
        alive.sort_by_key(|(id, pod)| match pod.phase() {
            PodPhase::Ready { since } => (1, std::cmp::Reverse((since, *id))),
            _ => (0, std::cmp::Reverse((Duration::ZERO, *id))),
        });
        alive.into_iter().take(count).map(|(id, _)| id).collect()
    }

    fn terminate(&mut self, id: PodId) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let was_ready = pod.is_ready();
        pod.terminate();
        if !was_ready {
            // No client or activator has its address yet.
            self.remove_if_drained(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(replicas: &mut ReplicaSet, second: u64, to: u32) -> PodChanges {
        let from = replicas.spec();
        let at = Duration::from_secs(second);
        replicas.write(SizeChange { at, from, to, writer: Writer::Hpa, desired: None, panicking: false })
    }

    #[test]
    fn deletes_starting_pods_first_and_then_the_newest() {
        let mut replicas = ReplicaSet::new(3, 1);
        let created = write(&mut replicas, 1, 5).created;
        assert_eq!(created, [3, 4]);
        replicas.become_ready(4, Duration::from_secs(2));
        assert_eq!(write(&mut replicas, 3, 3).terminated, [3, 4]);
        assert_eq!(replicas.ready(), [0, 1, 2]);
        assert!(!replicas.become_ready(3, Duration::from_secs(4)), "the pod is deleted");
        assert_eq!((replicas.spec(), replicas.alive(), replicas.version()), (3, 3, 2));
    }
}
