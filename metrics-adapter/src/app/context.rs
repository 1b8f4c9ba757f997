//! Context: what the tasks and servers of the process share, and the tasks that fill it.
//!
//! ```text
//!  watches ─► workloads, pods ─► scraper, reader ─► observed ─► multi_scaler ─► decided ─► servers
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::contract::{ACTIVATOR_LEASES, CARRIED_WORKLOADS};
use autoscaler::stats::CarriedWorkloads;
use autoscaler::stats::reporters::{BEAT, PublishedWorkloads};
use component_base::kubernetes::lease::Leadership;
use component_base::kubernetes::{NamespaceWatches, watch_lease_annotation, watch_members};
use component_base::readiness::Readiness;
use component_base::threads;
use kube::Client;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::collection::busy_pods::BusyPods;
use crate::collection::collector::Collector;
use crate::collection::pod_reports::PodReports;
use crate::collection::scrape_client::ScrapeClient;
use crate::collection::scrape_loop;
use crate::collection::stat_datagrams::StatDatagrams;
use crate::collection::stats_scraper::StatsScraper;
use crate::decisions::decision_history::DecisionHistory;
use crate::decisions::decision_store::DecisionStore;
use crate::decisions::multi_scaler::MultiScaler;
use crate::decisions::pokes::Pokes;
use crate::deletion_costs::cost_writer::CostWriter;
use crate::deletion_costs::marker::Marker;
use crate::learning::observations::Observations;
use crate::learning::resources::resource_reader::ResourceReader;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::metrics::Metrics;
use crate::watches::metric_watch::MetricWatch;
use crate::watches::plain_namespaces::namespaces_without_sidecar;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::stored_learning::StoredLearning;
use crate::watches::workloads::{WorkloadTable, WorkloadsReceiver};

/// The Service whose endpoints are the activators.
const ACTIVATOR_SERVICE: &str = "activator";

/// Shared by the tasks and servers.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) metrics: Metrics,
    pub(super) readiness: Readiness,
    pub(super) leadership: Leadership,
    pub(super) workloads: WorkloadsReceiver,
    pub(super) pods: ReadyPods,
    pub(super) observed: Observed,
    pub(super) decided: Decided,
}

/// What pods, activators and `metrics.k8s.io` reported.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) collector: Arc<Collector>,
    pub(super) pod_reports: Arc<PodReports>,
    busy_pods: Arc<BusyPods>,
    observations: Arc<Observations>,
    resources: Arc<ResourceReadings>,
}

/// What was decided, and what asks for a decision at once.
pub(super) struct Decided {
    pub(super) decisions: Arc<DecisionStore>,
    pub(super) history: Arc<DecisionHistory>,
    pub(super) pokes: Pokes,
}

/// The ends of channels that the tasks take.
pub(super) struct Inputs {
    table: watch::Sender<Arc<WorkloadTable>>,
    poked: mpsc::Receiver<Key>,
}

// === impl Context ===

impl Context {
    /// Without workloads, and without a task.
    pub(super) fn new(
        client: Client,
        metrics: Metrics,
        readiness: Readiness,
        leadership: Leadership,
    ) -> (Self, Inputs) {
        let (table, workloads) = watch::channel(Arc::new(WorkloadTable::default()));
        let (observed, decisions) = (Observed::default(), Arc::<DecisionStore>::default());
        let (pokes, poked) = Pokes::new(observed.collector.clone(), decisions.clone(), workloads.clone());
        let decided = Decided { decisions, history: Arc::default(), pokes };
        let pods = ReadyPods::default();
        let context = Self { client, metrics, readiness, leadership, workloads, pods, observed, decided };
        (context, Inputs { table, poked })
    }

    /// Starts the tasks. The thread of the collector lives until `end`.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub(super) fn start(
        &self,
        namespace: &str,
        inputs: Inputs,
        end: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> anyhow::Result<()> {
        let stored_learning = self.watch(namespace, inputs.table, tasks);
        self.collect(end, tasks)?;
        tasks.spawn(self.multi_scaler(stored_learning).run(inputs.poked));
        tasks.spawn(self.marker().run());
        Ok(())
    }

    /// Starts the watches; returns what is learned from the watched objects.
    fn watch(
        &self,
        namespace: &str,
        table: watch::Sender<Arc<WorkloadTable>>,
        tasks: &mut JoinSet<()>,
    ) -> StoredLearning {
        let Self { client, metrics, readiness, workloads, pods, .. } = self;
        let metric_watch = MetricWatch::new(client, namespace, readiness, table, metrics.clone());
        let stored_learning = metric_watch.stored_learning();
        tasks.spawn(metric_watch.run());
        let errors = || metrics.decode_errors.clone();
        tasks.spawn(pods.clone().watch(client.clone(), errors(), readiness.latch("pods")));
        let (activators, follow) = watch_members(client.clone(), namespace, ACTIVATOR_SERVICE, &errors());
        tasks.spawn(follow);
        let (carried, follow) = watch_lease_annotation(
            client.clone(),
            namespace,
            ACTIVATOR_LEASES,
            CARRIED_WORKLOADS,
            CarriedWorkloads::parse,
            &errors(),
        );
        tasks.spawn(follow);
        tasks.spawn(self.follow_activators(activators, carried));
        let (namespaces, follow) = namespaces_without_sidecar(workloads.clone());
        tasks.spawn(follow);
        let unlabelled = NamespaceWatches::new(client.clone(), namespaces, ReadyPods::unlabelled(), errors());
        tasks.spawn(pods.clone().watch_unlabelled(unlabelled));
        stored_learning
    }

    /// Passes the listed activators on, which of them do not report, and what those carry.
    fn follow_activators(
        &self,
        mut listed: watch::Receiver<BTreeSet<(String, bool)>>,
        mut carried: watch::Receiver<Option<PublishedWorkloads>>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (collector, decisions) = (self.observed.collector.clone(), self.decided.decisions.clone());
        let gauge = self.metrics.pushes.silent.clone();
        async move {
            loop {
                collector.list_activators(listed.borrow_and_update().iter().cloned());
                carried.borrow_and_update().iter().cloned().for_each(|it| collector.publish_carried(it));
                let missing = collector.missing_reports();
                gauge.set(missing.silent.len() as i64);
                decisions.set_missing_reports(missing);
                // An error means that a watch ended. It lives as long as its receiver.
                tokio::select! {
                    _ = listed.changed() => {}
                    _ = carried.changed() => {}
                    () = tokio::time::sleep(BEAT) => {}
                }
            }
        }
    }

    /// Starts the reads of pods, on a thread of their own, and of `metrics.k8s.io`.
    fn collect(&self, end: &CancellationToken, tasks: &mut JoinSet<()>) -> anyhow::Result<()> {
        let (thread, _) = threads::start_thread("collector", end.clone())?;
        let datagrams = {
            let _runtime = thread.enter();
            StatDatagrams::bind()
        };
        let scraper = self.scraper(ScrapeClient::new(Some(datagrams.clone())));
        spawn_on(&thread, tasks, datagrams.receive());
        let pokes = self.decided.pokes.clone();
        spawn_on(&thread, tasks, scrape_loop::run(scraper, move |key| pokes.on_scrape(key)));
        tasks.spawn(self.resource_reader().run());
        Ok(())
    }

    fn scraper(&self, client: ScrapeClient) -> StatsScraper {
        StatsScraper {
            collector: self.observed.collector.clone(),
            observations: self.observed.observations.clone(),
            pod_reports: self.observed.pod_reports.clone(),
            busy_pods: self.observed.busy_pods.clone(),
            resources: self.observed.resources.clone(),
            pods: self.pods.clone(),
            client,
            workloads: self.workloads.clone(),
            metrics: self.metrics.clone(),
        }
    }

    fn resource_reader(&self) -> ResourceReader {
        ResourceReader {
            client: self.client.clone(),
            pods: self.pods.clone(),
            workloads: self.workloads.clone(),
            readings: self.observed.resources.clone(),
            leadership: self.leadership.clone(),
            metrics: self.metrics.resources.clone(),
        }
    }

    fn marker(&self) -> Marker {
        let counters = self.metrics.deletion_costs.clone();
        Marker {
            pods: self.pods.clone(),
            workloads: self.workloads.clone(),
            decisions: self.decided.decisions.clone(),
            busy_pods: self.observed.busy_pods.clone(),
            clock: *self.observed.collector.clock(),
            leadership: self.leadership.clone(),
            writer: CostWriter { client: self.client.clone(), counters },
        }
    }

    fn multi_scaler(&self, stored_learning: StoredLearning) -> MultiScaler {
        MultiScaler {
            collector: self.observed.collector.clone(),
            pods: self.pods.clone(),
            workloads: self.workloads.clone(),
            pokes: self.decided.pokes.clone(),
            decisions: self.decided.decisions.clone(),
            history: self.decided.history.clone(),
            observations: self.observed.observations.clone(),
            resources: self.observed.resources.clone(),
            stored_learning,
            leadership: self.leadership.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// Spawns a task on another runtime. Its end, also by a panic, ends an entry of `tasks`.
fn spawn_on(runtime: &Handle, tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    let task = runtime.spawn(task);
    tasks.spawn(async {
        if let Err(error) = task.await {
            tracing::error!(%error, "collector task failed");
        }
    });
}
