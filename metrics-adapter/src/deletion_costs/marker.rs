//! Marker: finds the workloads with a scale-down ahead, and writes the costs of their pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use component_base::kubernetes::lease::Leadership;
use futures::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use crate::collection::busy_pods::BusyPods;
use crate::collection::window_clock::WindowClock;
use crate::decisions::decision_store::DecisionStore;
use crate::deletion_costs::cost_writer::{CostWrite, CostWriter};
use crate::deletion_costs::survivors::{Candidate, cost_changes};
use crate::deletion_costs::write_budget::WriteBudget;
use crate::watches::deletion_cost::DeletionCost;
use crate::watches::pod::Pod;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::workloads::{Workload, WorkloadTable, WorkloadsReceiver};

/// As often as decisions are made.
const TICK: Duration = Duration::from_secs(2);
/// Shortest time between two passes over all workloads.
const SHORTEST_TICK: Duration = Duration::from_millis(50);
/// Most writes in a tick.
const WRITES_A_TICK: usize = 40;
/// Most writes of a workload in a period of [`WORKLOAD_PERIOD`].
const WRITES_OF_A_WORKLOAD: usize = 8;
const WORKLOAD_PERIOD: Duration = Duration::from_secs(10);
/// Writes at a time.
const CONCURRENT_WRITES: usize = 8;
/// How often costs of workloads without a scale-down ahead are removed.
const SWEEP: Duration = Duration::from_secs(300);
/// How long no write is tried after a refusal for lack of a right.
const FORBIDDEN_PAUSE: Duration = Duration::from_secs(600);

/// Keeps the costs of all workloads while this replica leads, and drops the loads of former ones.
pub struct Marker {
    pub pods: ReadyPods,
    pub workloads: WorkloadsReceiver,
    pub decisions: Arc<DecisionStore>,
    pub busy_pods: Arc<BusyPods>,
    pub clock: WindowClock,
    pub leadership: Leadership,
    pub writer: CostWriter,
}

/// What was written lately. At most an entry a workload of the table.
#[derive(Debug)]
struct Progress {
    budget: WriteBudget,
    of_workload: HashMap<Key, WriteBudget>,
    swept: Instant,
    paused_until: Instant,
}

// === impl Marker ===

impl Marker {
    /// Runs until the process ends.
    pub async fn run(self) {
        let now = Instant::now();
        let budget = WriteBudget::new(WRITES_A_TICK, TICK, now);
        let mut progress = Progress { budget, of_workload: HashMap::new(), swept: now, paused_until: now };
        loop {
            // An error is the end of the tick.
            let _ = timeout(TICK, self.decisions.scale_down_ahead()).await;
            let (now, table) = (Instant::now(), self.workloads.borrow().clone());
            self.busy_pods.retain(|key| table.get(key).is_some());
            if self.leadership.is_leader() && now >= progress.paused_until {
                self.pass(&table, &mut progress, now).await;
            }
            sleep(SHORTEST_TICK).await;
        }
    }

    async fn pass(&self, table: &WorkloadTable, progress: &mut Progress, now: Instant) {
        progress.of_workload.retain(|key, _| table.get(key).is_some());
        let (mut writes, mut in_use) = (Vec::new(), HashSet::new());
        for workload in table.iter().filter(|workload| self.is_scale_down_ahead(workload)) {
            let pods = self.ready(workload);
            let ours = pods.iter().filter(|pod| pod.deletion_cost == DeletionCost::Ours);
            in_use.extend(ours.map(|pod| pod.uid.clone()));
            let mut due = self.due(workload, &pods);
            if !due.is_empty() {
                let new = || WriteBudget::new(WRITES_OF_A_WORKLOAD, WORKLOAD_PERIOD, now);
                let budget = progress.of_workload.entry(workload.key.clone()).or_insert_with(new);
                due.truncate(budget.take(due.len(), now));
                writes.extend(due);
            }
        }
        if now.duration_since(progress.swept) >= SWEEP {
            let stale = self.stale(&in_use);
            // With more, the next pass continues.
            if stale.len() < WRITES_A_TICK {
                progress.swept = now;
            }
            writes.extend(stale);
        }
        writes.truncate(progress.budget.take(writes.len(), now));
        self.write(writes, progress, now).await;
    }

    fn is_scale_down_ahead(&self, workload: &Workload) -> bool {
        let decided = self.decisions.read(&workload.key, |decision| (decision.desired, decision.ready));
        let Some((desired, ready)) = decided.filter(|_| workload.kept.is_none()) else { return false };
        let now = component_base::clock::unix_millis();
        let scheduled = workload.schedule.as_ref().map_or(0, |schedule| schedule.minimum(now));
        desired.max(scheduled).max(workload.smallest_size) < ready
    }

    fn ready(&self, workload: &Workload) -> Vec<Arc<Pod>> {
        let Workload { key, selector, sidecar, .. } = workload;
        let mut pods = self.pods.select(&key.namespace, selector, *sidecar).unwrap_or_default();
        pods.retain(|pod| pod.ready);
        pods
    }

    fn due(&self, workload: &Workload, pods: &[Arc<Pod>]) -> Vec<CostWrite> {
        let loads = self.busy_pods.loads(&workload.key, self.clock.now());
        let mut ours: Vec<_> = pods.iter().filter(|pod| pod.deletion_cost != DeletionCost::Foreign).collect();
        ours.sort_by(|a, b| a.name.cmp(&b.name));
        let candidate = |pod: &Arc<Pod>| Candidate {
            pod: pod.clone(),
            load: pod.ip.and_then(|ip| loads.get(&ip)).copied().unwrap_or(0.0),
            has_cost: pod.deletion_cost == DeletionCost::Ours,
        };
        let changes = cost_changes(ours.into_iter().map(candidate).collect()).into_iter();
        let namespace = &workload.key.namespace;
        changes.map(|(pod, set)| CostWrite { namespace: namespace.clone(), pod, set }).collect()
    }

    /// The removal of the costs that no scale-down ahead needs, of former workloads as well.
    fn stale(&self, in_use: &HashSet<Box<str>>) -> Vec<CostWrite> {
        let ours = self.pods.with_our_deletion_cost().into_iter();
        let stale = ours.filter(|(_, pod)| !in_use.contains(&pod.uid));
        stale.map(|(namespace, pod)| CostWrite { namespace, pod, set: false }).collect()
    }

    async fn write(&self, writes: Vec<CostWrite>, progress: &mut Progress, now: Instant) {
        let writes = stream::iter(writes).map(|write| self.writer.write(write));
        let forbidden: Vec<bool> = writes.buffer_unordered(CONCURRENT_WRITES).collect().await;
        if forbidden.contains(&true) {
            progress.paused_until = now + FORBIDDEN_PAUSE;
        }
    }
}
