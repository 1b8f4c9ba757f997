//! Queries of two hundred HPAs to two adapter replicas, while the replicas are restarted.
//!
//! First each replica is terminated cleanly, as in a rolling update: no query may fail. Then the
//! leader is killed: until its lease expires queries may fail, and HPAs keep their sizes. No value
//! may ever be low enough for an HPA to scale its workload down.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::seq::IteratorRandom;
use tokio::runtime::Runtime;
use tokio::time::{Instant, MissedTickBehavior};

use crate::adapter::{Adapter, AdapterConfig};
use crate::args::Args;
use crate::components;
use crate::fake_cluster::FakeCluster;
use crate::hpa_queries::HpaClients;
use crate::pods::{MEAN_LOAD, Pods};

const WORKLOADS: usize = 200;
const PODS: usize = 10;
/// Smallest value allowed, as a share of the true one. Pods have different loads, and only a sample
/// is scraped.
const MIN_SHARE: f64 = 0.9;
/// Time between restarts, so that the new replica has full windows. `minReadySeconds` has the same
/// effect.
const RESTART_INTERVAL: Duration = Duration::from_secs(61);
/// Observation time after a replica has gone.
const OBSERVATION: Duration = Duration::from_secs(20);
/// Duration of a lease, and the retry interval of the successor.
const LEASE_EXPIRY: Duration = Duration::from_secs(11);
/// Interval between queries: each HPA queries about three times a second, instead of every 15 s.
const QUERY_INTERVAL: Duration = Duration::from_millis(2);

/// The running replicas.
struct Replicas<'a> {
    args: &'a Args,
    cluster: &'a FakeCluster,
    directory: &'a Path,
    running: BTreeMap<usize, (Adapter, HpaClients, tokio::task::JoinSet<()>)>,
    started: usize,
}

/// Results of the queries of one observation.
#[derive(Debug, Default)]
struct Observation {
    queries: usize,
    failed: usize,
    last_error: Option<String>,
    /// Time from the start to the last failure.
    last_failure: Duration,
    lowest: Option<f64>,
}

/// Restarts and kills replicas, and returns the missed bounds.
pub(crate) fn run(runtime: &Runtime, args: &Args, pods: &Pods) -> Result<Vec<String>> {
    let directory = args.cache.join("scale");
    std::fs::create_dir_all(&directory)?;
    runtime.block_on(async {
        let cluster = FakeCluster::new(WORKLOADS, PODS, pods.port, &args.learn_target, &directory).await?;
        let (running, started) = (BTreeMap::new(), 0);
        let mut replicas = Replicas { args, cluster: &cluster, directory: &directory, running, started };
        replicas.start().await?;
        replicas.start().await?;
        tokio::time::sleep(RESTART_INTERVAL).await;
        let mut missed = Vec::new();
        for nth in 1..=2 {
            let oldest = replicas.oldest()?;
            let observed = replicas.observe(OBSERVATION, |replicas| replicas.terminate(oldest)).await?;
            println!("termination of replica {nth}: {observed}");
            missed.extend(observed.missed(Duration::ZERO, "termination"));
            replicas.running.remove(&oldest);
            replicas.start().await?;
            let observed = replicas.observe(RESTART_INTERVAL, |_| Ok(())).await?;
            missed.extend(observed.missed(Duration::ZERO, "start"));
        }
        let leader = replicas.leader().await?;
        let observed = replicas.observe(OBSERVATION, |replicas| replicas.kill(leader)).await?;
        println!("kill of the leader: {observed}");
        missed.extend(observed.missed(LEASE_EXPIRY, "kill"));
        Ok(missed)
    })
}

// === impl Replicas ===

impl Replicas<'_> {
    async fn start(&mut self) -> Result<()> {
        let config = AdapterConfig {
            binary: &self.args.metrics_adapter,
            kubeconfig: &self.cluster.kubeconfig,
            directory: self.directory,
            name: format!("metrics-adapter-{}", self.started),
            shutdown_delay: Duration::from_secs(2),
        };
        let adapter = Adapter::start(&config)?;
        adapter.ready().await?;
        let components = components::connect(adapter.stats, WORKLOADS).await?;
        let clients = HpaClients::connect(self.cluster, &adapter, WORKLOADS).await?;
        self.running.insert(self.started, (adapter, clients, components));
        self.started += 1;
        Ok(())
    }

    fn oldest(&self) -> Result<usize> {
        self.running.keys().next().copied().context("no running replica")
    }

    fn terminate(&self, replica: usize) -> Result<()> {
        let (adapter, ..) = self.running.get(&replica).context("the replica is not running")?;
        adapter.terminate();
        Ok(())
    }

    fn kill(&self, replica: usize) -> Result<()> {
        let (adapter, ..) = self.running.get(&replica).context("the replica is not running")?;
        adapter.kill();
        Ok(())
    }

    /// The holder of the Lease.
    async fn leader(&self) -> Result<usize> {
        let lease = self
            .cluster
            .api
            .get("/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/metrics-adapter");
        let lease = lease.context("no Lease")?;
        let holder =
            lease.pointer("/spec/holderIdentity").and_then(serde_json::Value::as_str).context("no holder")?;
        let pod = holder.split_once('_').map_or(holder, |(pod, _)| pod);
        pod.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).context("unexpected holder identity")
    }

    /// Starts `event` and queries random ready replicas for this time.
    async fn observe(
        &self,
        during: Duration,
        event: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Observation> {
        let mut observed = Observation::default();
        let mut ticks = tokio::time::interval(QUERY_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let start = Instant::now();
        event(self)?;
        while start.elapsed() < during {
            ticks.tick().await;
            // kube-proxy does the same after the endpoints have changed.
            let ready = self.running.values().filter(|(adapter, ..)| !adapter.is_removed());
            let (_, clients, _) = ready.choose(&mut rand::rng()).context("no ready replica")?;
            observed.add(start.elapsed(), clients.query().await);
        }
        ensure!(observed.queries > 0, "no query was sent");
        Ok(observed)
    }
}

// === impl Observation ===

impl Observation {
    fn add(&mut self, at: Duration, result: Result<f64>) {
        self.queries += 1;
        match result {
            Ok(value) => self.lowest = Some(self.lowest.map_or(value, |lowest| lowest.min(value))),
            Err(error) => {
                self.failed += 1;
                self.last_failure = at;
                self.last_error = Some(format!("{error:#}"));
            }
        }
    }

    /// The missed bounds; queries may fail for the first `outage`.
    fn missed(&self, outage: Duration, event: &str) -> Vec<String> {
        let bound = MIN_SHARE * MEAN_LOAD * PODS as f64;
        let failed = if outage.is_zero() { self.failed > 0 } else { self.last_failure > outage };
        let too_low = self.lowest.is_none_or(|lowest| lowest < bound);
        let failed = failed.then(|| {
            format!("{event}: {} of {} queries failed: {:?}", self.failed, self.queries, self.last_error)
        });
        let too_low =
            too_low.then(|| format!("{event}: lowest value {:?}, expected at least {bound}", self.lowest));
        failed.into_iter().chain(too_low).collect()
    }
}

impl std::fmt::Display for Observation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} queries, {} failed, the last after {:.1} s; lowest value {:.1}",
            self.queries,
            self.failed,
            self.last_failure.as_secs_f64(),
            self.lowest.unwrap_or_default()
        )
    }
}
