//! Deletion costs, from decisions and the loads of pods to the annotations in a cluster.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;

use autoscaler::Decision;
use autoscaler::scaling::decider::{DecisionRule, ScaleResult};
use autoscaler::stats::collection::WindowAverages;
use component_base::kubernetes::lease::Leadership;
use fake_api::FakeApi;
use kube::runtime::watcher::Event;
use metrics_adapter::collection::busy_pods::BusyPods;
use metrics_adapter::collection::window_clock::WindowClock;
use metrics_adapter::decisions::decision_store::DecisionStore;
use metrics_adapter::deletion_costs::cost_writer::CostWriter;
use metrics_adapter::deletion_costs::marker::Marker;
use metrics_adapter::metrics::Metrics;
use metrics_adapter::watches::ready_pods::ReadyPods;
use metrics_adapter::watches::workloads::{Workload, WorkloadTable};
use prometheus::Registry;
use serde_json::{Value, json};
use support::key;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const NONE: [u8; 0] = [];
const PODS: &str = "/api/v1/namespaces/shop/pods";

/// The ten ready pods `web-0` to `web-9` of a workload, and the leader.
struct Cluster {
    api: FakeApi,
    pods: ReadyPods,
    decisions: Arc<DecisionStore>,
    busy: Arc<BusyPods>,
    clock: WindowClock,
    table: watch::Sender<Arc<WorkloadTable>>,
    _task: AbortOnDropHandle<()>,
}

impl Cluster {
    fn start() -> Self {
        let (api, pods, busy) = (FakeApi::default(), ReadyPods::default(), Arc::<BusyPods>::default());
        let decisions = Arc::<DecisionStore>::default();
        let clock = WindowClock::default();
        let workload = Workload { smallest_size: 1, ..support::workload() };
        let (table, workloads) = watch::channel(Arc::new(WorkloadTable::from_iter([workload])));
        let counters = Metrics::register(&Registry::new()).unwrap().deletion_costs;
        let marker = Marker {
            pods: pods.clone(),
            workloads,
            decisions: decisions.clone(),
            busy_pods: busy.clone(),
            clock,
            leadership: Leadership::always_leading(),
            writer: CostWriter { client: api.client(), counters },
        };
        for i in 0..10 {
            api.put(&format!("{PODS}/web-{i}"), pod(i));
        }
        let task = AbortOnDropHandle::new(tokio::spawn(marker.run()));
        let cluster = Self { api, pods, decisions, busy, clock, table, _task: task };
        cluster.observe();
        cluster
    }

    /// The watch of the pods catches up.
    fn observe(&self) {
        self.pods.apply(Event::Init);
        for (path, pod) in self.api.objects() {
            if path.starts_with(PODS) {
                self.pods.apply(Event::InitApply(serde_json::from_value(pod).unwrap()));
            }
        }
        self.pods.apply(Event::InitDone);
    }

    fn decide(&self, desired: u32) {
        let averages = WindowAverages { stable: f64::from(desired), panic: f64::from(desired) };
        let rule = DecisionRule::Stable;
        let result = ScaleResult { desired, excess_burst_capacity: 0, averages, rule, held: false };
        self.decisions.publish(Decision::new(key(), result, false, 10, None, 1));
    }

    /// Lets `seconds` pass, in each of which the pods are read with these loads.
    async fn pass(&self, seconds: u64, loads: &[(u8, f64)]) {
        for _ in 0..seconds {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let load = |i: u8| loads.iter().find(|(pod, _)| *pod == i).map_or(0.0, |(_, load)| *load);
            let reads = (0..10).map(|i| ([10, 0, 0, i].into(), load(i)));
            self.busy.record(&key(), self.clock.now(), 10, reads);
            self.observe();
        }
    }

    fn cost(&self, i: u8) -> Value {
        let pod = self.api.get(&format!("{PODS}/web-{i}")).unwrap();
        pod["metadata"]["annotations"][COST].clone()
    }

    /// The pods with a cost.
    fn costs(&self) -> Vec<u8> {
        (0..10).filter(|i| !self.cost(*i).is_null()).collect()
    }
}

fn pod(i: u8) -> Value {
    json!({
        "metadata": {
            "name": format!("web-{i}"), "namespace": "shop", "labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "1", "controller": true},
            ],
        },
        "spec": {"containers": [{"name": "app"}]},
        "status": {
            "phase": "Running", "podIP": format!("10.0.0.{i}"), "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn pod_with_a_long_request_is_deleted_last_by_one_write() {
    let cluster = Cluster::start();
    cluster.decide(10);
    cluster.pass(10, &[(7, 1.0)]).await;
    assert_eq!(cluster.costs(), NONE, "no scale-down is near");
    for desired in [9, 5, 1] {
        cluster.decide(desired);
        cluster.pass(15, &[(7, 1.0)]).await;
        assert_eq!((cluster.costs(), cluster.cost(7)), (vec![7], json!("1")));
    }
    assert_eq!(cluster.api.writes(), [format!("PATCH {PODS}/web-7")]);
}

#[tokio::test(start_paused = true)]
async fn cost_goes_to_the_pod_that_is_busy_now_and_is_removed_in_the_end() {
    let cluster = Cluster::start();
    cluster.decide(1);
    cluster.pass(12, &[(7, 1.0)]).await;
    cluster.pass(12, &[]).await;
    assert_eq!(cluster.costs(), [7], "no other pod is busy");
    cluster.pass(15, &[(3, 1.0)]).await;
    assert_eq!(cluster.costs(), [3]);
    cluster.decide(10);
    cluster.pass(310, &[(3, 1.0)]).await;
    assert_eq!(cluster.costs(), NONE, "no scale-down is near");
    assert!(cluster.api.get(&format!("{PODS}/web-3")).unwrap()["metadata"]["managedFields"] == json!([]));
}

#[tokio::test(start_paused = true)]
async fn cost_of_a_workload_that_was_removed_is_removed() {
    let cluster = Cluster::start();
    cluster.decide(1);
    cluster.pass(12, &[(7, 1.0)]).await;
    assert_eq!(cluster.costs(), [7]);
    cluster.table.send_replace(Arc::default());
    cluster.pass(310, &[(7, 1.0)]).await;
    assert_eq!(cluster.costs(), NONE);
}

#[tokio::test(start_paused = true)]
async fn cost_of_a_user_is_never_written() {
    let cluster = Cluster::start();
    let mut of_user = pod(7);
    of_user["metadata"]["annotations"] = json!({COST: "-5"});
    // The watch does not have it yet.
    cluster.decide(1);
    cluster.pass(1, &[(7, 1.0)]).await;
    cluster.api.put(&format!("{PODS}/web-7"), of_user);
    tokio::time::sleep(Duration::from_secs(5)).await;
    cluster.pass(310, &[(7, 1.0)]).await;
    assert_eq!((cluster.costs(), cluster.cost(7)), (vec![7], json!("-5")));
}

#[tokio::test(start_paused = true)]
async fn writes_are_bounded_with_pods_that_take_turns() {
    let cluster = Cluster::start();
    cluster.decide(1);
    for round in 0..20_u8 {
        let turn = |offset: u8| ((round * 3 + offset) % 10, 1.0);
        cluster.pass(3, &[turn(0), turn(1), turn(2), turn(3)]).await;
    }
    let writes = cluster.api.writes().len();
    assert!((20..=56).contains(&writes), "{writes} writes in a minute");
}

#[tokio::test(start_paused = true)]
async fn cost_is_written_at_the_moment_of_the_decision() {
    let cluster = Cluster::start();
    let all: Vec<(u8, f64)> = (0..10).map(|i| (i, 10.0)).collect();
    cluster.decide(10);
    cluster.pass(5, &all).await;
    cluster.pass(1, &[(7, 1.0)]).await;
    cluster.decide(9);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(cluster.costs(), [7]);
    cluster.pass(5, &all).await;
    assert_eq!(cluster.costs(), [7], "all are busy");
}

#[tokio::test(start_paused = true)]
async fn smallest_size_and_lack_of_the_right_end_the_writes() {
    let cluster = Cluster::start();
    let floor = Workload { smallest_size: 10, ..support::workload() };
    cluster.table.send_replace(Arc::new(WorkloadTable::from_iter([floor])));
    cluster.decide(1);
    cluster.pass(30, &[(7, 1.0)]).await;
    assert_eq!(cluster.api.writes(), Vec::<String>::new(), "ten pods stay");
    cluster.table.send_replace(Arc::new(WorkloadTable::from_iter([support::workload()])));
    cluster.api.refuse_writes(PODS, Some("forbidden"));
    cluster.pass(300, &[(7, 1.0)]).await;
    assert_eq!(cluster.api.writes().len(), 1);
}
