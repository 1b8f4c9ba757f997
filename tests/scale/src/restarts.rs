//! Restarts: two adapters, two hundred HPAs that ask, and one replica after the other that goes.
//!
//! First each is ended cleanly, as an update does it: nobody may be refused. Then the one that leads is killed: until its lease ends
//! questions may fail, and HPAs keep their sizes. No value may ever be one at which an HPA would shrink its workload.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rand::seq::IteratorRandom;
use tokio::runtime::Runtime;
use tokio::time::{Instant, MissedTickBehavior};

use crate::adapter::{Adapter, Setup};
use crate::args::Args;
use crate::parts;
use crate::pods::{MEAN_LOAD, Pods};
use crate::queries::Callers;
use crate::world::World;

const WORKLOADS: usize = 200;
const PODS: usize = 10;
/// Of the true value; the pods' loads differ, and a sample of them is read.
const LEAST: f64 = 0.9;
/// A replica must have full windows before the other one goes, which is what `minReadySeconds` sees to.
const APART: Duration = Duration::from_secs(61);
/// Time that is watched after a replica went.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// A lease, and the time until its successor has noticed.
const LEASE: Duration = Duration::from_secs(11);
/// All HPAs ask about three times a second, instead of once in fifteen seconds.
const RATE: Duration = Duration::from_millis(2);

/// The replicas that run.
struct Replicas<'a> {
    args: &'a Args,
    world: &'a World,
    pods: &'a Pods,
    directory: &'a Path,
    running: BTreeMap<usize, (Adapter, Callers, tokio::task::JoinSet<()>)>,
    started: usize,
}

/// What was asked, and answered.
#[derive(Debug, Default)]
struct Watched {
    asked: usize,
    failed: usize,
    failure: Option<String>,
    /// Time from the start to the last failure.
    last_failure: Duration,
    least: Option<f64>,
}

/// Plays it; the bounds that were missed.
pub(crate) fn run(runtime: &Runtime, args: &Args, pods: &Pods) -> Result<Vec<String>> {
    let directory = args.cache.join("scale");
    std::fs::create_dir_all(&directory)?;
    runtime.block_on(async {
        let world = World::new(WORKLOADS, PODS, &directory).await?;
        let (running, started) = (BTreeMap::new(), 0);
        let mut replicas = Replicas { args, world: &world, pods, directory: &directory, running, started };
        replicas.start().await?;
        replicas.start().await?;
        tokio::time::sleep(APART).await;
        let mut missed = Vec::new();
        for nth in 1..=2 {
            let oldest = replicas.oldest()?;
            let watched = replicas.watch(AFTERWARDS, |replicas| replicas.end(oldest)).await?;
            println!("clean end of replica {nth}: {watched}");
            missed.extend(watched.missed(Duration::ZERO, "a clean end"));
            replicas.running.remove(&oldest);
            replicas.start().await?;
            let watched = replicas.watch(APART, |_| Ok(())).await?;
            missed.extend(watched.missed(Duration::ZERO, "a start"));
        }
        let leader = replicas.leader().await?;
        let watched = replicas.watch(AFTERWARDS, |replicas| replicas.kill(leader)).await?;
        println!("kill of the leader: {watched}");
        missed.extend(watched.missed(LEASE, "a kill"));
        Ok(missed)
    })
}

// === impl Replicas ===

impl Replicas<'_> {
    async fn start(&mut self) -> Result<()> {
        let setup = Setup {
            binary: &self.args.metrics_adapter,
            kubeconfig: &self.world.kubeconfig,
            pod_port: self.pods.port,
            directory: self.directory,
            name: format!("metrics-adapter-{}", self.started),
            shutdown_delay: Duration::from_secs(2),
        };
        let adapter = Adapter::start(&setup)?;
        adapter.ready().await?;
        let parts = parts::connect(adapter.stats, WORKLOADS).await?;
        let callers = Callers::connect(self.world, &adapter, WORKLOADS).await?;
        self.running.insert(self.started, (adapter, callers, parts));
        self.started += 1;
        Ok(())
    }

    fn oldest(&self) -> Result<usize> {
        self.running.keys().next().copied().context("no replica runs")
    }

    fn end(&self, replica: usize) -> Result<()> {
        let (adapter, ..) = self.running.get(&replica).context("it does not run")?;
        adapter.terminate();
        Ok(())
    }

    fn kill(&self, replica: usize) -> Result<()> {
        let (adapter, ..) = self.running.get(&replica).context("it does not run")?;
        adapter.kill();
        Ok(())
    }

    /// The one that the Lease names.
    async fn leader(&self) -> Result<usize> {
        let lease =
            self.world.api.get("/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases/metrics-adapter");
        let lease = lease.context("no Lease")?;
        let holder =
            lease.pointer("/spec/holderIdentity").and_then(serde_json::Value::as_str).context("no holder")?;
        let pod = holder.split_once('_').map_or(holder, |(pod, _)| pod);
        pod.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).context("an odd holder")
    }

    /// Asks all that are ready, in turn, while `event` happens.
    async fn watch(&self, during: Duration, event: impl FnOnce(&Self) -> Result<()>) -> Result<Watched> {
        let mut watched = Watched::default();
        let mut pace = tokio::time::interval(RATE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let start = Instant::now();
        event(self)?;
        while start.elapsed() < during {
            pace.tick().await;
            // As kube-proxy would, once the endpoints say that one is not ready.
            let ready = self.running.values().filter(|(adapter, ..)| !adapter.is_left_out());
            let (_, callers, _) = ready.choose(&mut rand::rng()).context("no replica is ready")?;
            watched.add(start.elapsed(), callers.ask_one().await);
        }
        ensure!(watched.asked > 0, "nothing was asked");
        Ok(watched)
    }
}

// === impl Watched ===

impl Watched {
    fn add(&mut self, at: Duration, answer: Result<f64>) {
        self.asked += 1;
        match answer {
            Ok(value) => self.least = Some(self.least.map_or(value, |least| least.min(value))),
            Err(error) => {
                self.failed += 1;
                self.last_failure = at;
                self.failure = Some(format!("{error:#}"));
            }
        }
    }

    /// `outage`: for how long questions may fail.
    fn missed(&self, outage: Duration, what: &str) -> Vec<String> {
        let bound = LEAST * MEAN_LOAD * PODS as f64;
        let failed = if outage.is_zero() { self.failed > 0 } else { self.last_failure > outage };
        let shrinks = self.least.is_none_or(|least| least < bound);
        let failed =
            failed.then(|| format!("{what}: {} of {} failed: {:?}", self.failed, self.asked, self.failure));
        let shrinks =
            shrinks.then(|| format!("{what}: a value of {:?}, where {bound} would shrink", self.least));
        failed.into_iter().chain(shrinks).collect()
    }
}

impl std::fmt::Display for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} questions, {} failed, the last after {:.1} s; the least value {:.1}",
            self.asked,
            self.failed,
            self.last_failure.as_secs_f64(),
            self.least.unwrap_or_default()
        )
    }
}
