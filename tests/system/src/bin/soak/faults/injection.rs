//! Injects faults one after another, and keeps which failed requests belong to which.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Client, ResourceExt};
use system_tests::cluster::container_process;
use system_tests::cluster::installation::{self, COMPONENTS};
use system_tests::cluster::namespace::{TestNamespace, is_ready};
use system_tests::timeline::now_ms;
use system_tests::wait;
use tokio::time::{Instant, sleep};

use super::kills::{self, ACTIVATOR, Kill, VICTIMS};
use super::load::{Cycles, FailedRequest, SESSIONS};
use super::network::{self, NetworkFault};
use super::{clock, disk};
use crate::args::FaultKind;

/// After a fault, before the next one. Failures in it belong to the fault.
pub(super) const REST: Duration = Duration::from_secs(15);
/// From one kill to the next.
const KILL_INTERVAL: Duration = Duration::from_secs(20);
/// Kills take so many times as long as another fault.
const KILLS: u32 = 3;
const LOSS_PERCENT: u32 = 5;
const DELAY: Duration = Duration::from_millis(200);
const WITHOUT_API_SERVER: Duration = Duration::from_secs(120);
/// A pod that is ready for so long is in the caches of all parts.
const IN_CACHES: Duration = Duration::from_secs(3);
/// How long one replica is cut off from all other parts, at most.
const ISOLATED: Duration = Duration::from_secs(180);
/// How long a leader is stopped: longer than its Lease lasts.
const STOPPED: Duration = Duration::from_secs(20);
/// Seconds by which a clock is stepped: more than a Lease, a window or a token's renewal.
const CLOCK_STEP: i32 = 3600;
/// Time for all components to become available.
const UP: Duration = Duration::from_secs(120);
const ADAPTER: &str = "metrics-adapter";
const ZERO_SCALER: &str = "zero-scaler";

#[derive(Debug)]
pub(super) struct EndedFault {
    pub(super) kind: FaultKind,
    pub(super) name: String,
    /// Unix milliseconds, after the rest.
    pub(super) end_ms: f64,
    /// Workloads that were at zero and could not wake in it.
    pub(super) at_zero: BTreeSet<String>,
}

/// Faults so far.
pub(super) struct Injection<'a> {
    client: &'a Client,
    namespace: &'a TestNamespace,
    cycles: &'a Cycles,
    phase: Duration,
    pub(super) faults: Vec<EndedFault>,
    pub(super) kills: Vec<Kill>,
}

/// Whether a request failed by this one of all faults: the first that had not ended when it began.
pub(super) fn is_of(failed: &FailedRequest, fault: &EndedFault, faults: &[EndedFault]) -> bool {
    let first = faults.iter().find(|other| failed.begin() <= other.end_ms);
    first.is_some_and(|first| std::ptr::eq(first, fault))
}

/// Whether a request failed during the kills.
pub(super) fn is_of_kills(failed: &FailedRequest, faults: &[EndedFault]) -> bool {
    faults.iter().any(|fault| fault.kind == FaultKind::Kills && is_of(failed, fault, faults))
}

// === impl Injection ===

impl<'a> Injection<'a> {
    pub(super) fn new(
        client: &'a Client,
        namespace: &'a TestNamespace,
        cycles: &'a Cycles,
        phase: Duration,
    ) -> Self {
        Self { client, namespace, cycles, phase, faults: Vec::new(), kills: Vec::new() }
    }

    /// Injects all faults of a kind.
    ///
    /// # Errors
    /// When one cannot be injected on this machine, or the API refuses.
    pub(super) async fn inject(&mut self, kind: FaultKind) -> Result<()> {
        match kind {
            FaultKind::Loss => {
                let name = format!("{LOSS_PERCENT} % of packets lost");
                self.keep(kind, name, network::lose(LOSS_PERCENT)?).await
            }
            FaultKind::Delay => {
                let name = format!("packets delayed by {DELAY:?}");
                self.keep(kind, name, network::delay(DELAY)?).await
            }
            FaultKind::Partitions => self.partition().await,
            FaultKind::ApiServer => self.end_api_server().await,
            FaultKind::Clocks => self.step_clocks().await,
            FaultKind::Disk => self.fill_disks().await,
            FaultKind::Isolation => self.isolate().await,
            FaultKind::Stops => self.stop_leaders().await,
            FaultKind::Kills => self.kill_in_turn().await,
        }
    }

    async fn keep(&mut self, kind: FaultKind, name: String, fault: NetworkFault) -> Result<()> {
        sleep(self.phase).await;
        fault.end()?;
        self.rest(kind, name, BTreeSet::new()).await;
        Ok(())
    }

    async fn rest(&mut self, kind: FaultKind, name: String, at_zero: BTreeSet<String>) {
        sleep(REST).await;
        println!("  {} requests failed until the end of: {name}", self.cycles.counts.failed().len());
        self.faults.push(EndedFault { kind, name, end_ms: now_ms(), at_zero });
    }

    /// Cuts any two parts off from each other. Queue-proxies push nothing to others, and activators
    /// without pods cannot serve, so the other partition of pods is from the metrics-adapters.
    async fn partition(&mut self) -> Result<()> {
        for (one, other) in pairs() {
            let fault = network::partition(&self.ips(one).await?, &self.ips(other).await?)?;
            self.keep(FaultKind::Partitions, format!("{one} and {other} partitioned"), fault).await?;
        }
        let mut installation = Vec::new();
        for part in COMPONENTS {
            installation.extend(self.ips(part).await?);
        }
        let fault = network::partition_from_all_but(&self.ips(ADAPTER).await?, &installation)?;
        self.keep(FaultKind::Partitions, format!("{ADAPTER} and queue-proxies partitioned"), fault).await
    }

    /// Requests to workloads with pods may not fail. One at zero cannot wake.
    async fn end_api_server(&mut self) -> Result<()> {
        let for_long = self.with_pods().await?;
        sleep(IN_CACHES).await;
        let now = self.with_pods().await?;
        let fault = network::end_api_server()?;
        let has_pods = |name: &&String| for_long.contains(*name) && now.contains(*name);
        let at_zero = self.cycles.names.iter().filter(|name| !has_pods(name)).cloned().collect();
        sleep(WITHOUT_API_SERVER).await;
        fault.end()?;
        self.rest(FaultKind::ApiServer, "API server gone".to_owned(), at_zero).await;
        installation::until_ready(self.client, UP).await
    }

    /// One replica of each part is an hour ahead and one behind, then the other way round.
    async fn step_clocks(&mut self) -> Result<()> {
        for step in [CLOCK_STEP, -CLOCK_STEP] {
            let mut clocks = Vec::new();
            for part in COMPONENTS {
                let steps = [step, -step].into_iter().cycle();
                for (pod, step) in installation::ready_pods(self.client, part).await?.iter().zip(steps) {
                    clocks.push(clock::step(container_process::find(pod, Some(part))?, step)?);
                }
            }
            sleep(self.phase / 2).await;
        }
        self.rest(FaultKind::Clocks, "clocks stepped by an hour".to_owned(), BTreeSet::new()).await;
        Ok(())
    }

    async fn fill_disks(&mut self) -> Result<()> {
        let mut disks = Vec::new();
        for pod in installation::ready_pods(self.client, ACTIVATOR).await? {
            disks.push(disk::fill(container_process::find(&pod, Some(ACTIVATOR))?)?);
        }
        sleep(self.phase).await;
        drop(disks);
        self.rest(FaultKind::Disk, "disks of activators full".to_owned(), BTreeSet::new()).await;
        Ok(())
    }

    /// Cuts one replica of each part off from all other pods of the installation. Its connections
    /// to clients and to workloads' pods stay, with the sessions that began before and end after.
    async fn isolate(&mut self) -> Result<()> {
        for part in COMPONENTS {
            let mut others = Vec::new();
            for other in COMPONENTS {
                others.extend(self.ips(other).await?);
            }
            let replica = self.ips(part).await?.pop().with_context(|| format!("no {part} is ready"))?;
            others.retain(|ip| *ip != replica);
            let isolated = self.phase.min(ISOLATED);
            let sessions = self.cycles.start_sessions(isolated + 2 * REST)?;
            wait::until("a pod of the sessions", UP, || async {
                Ok(self.with_pods().await?.contains(SESSIONS).then_some(()))
            })
            .await?;
            sleep(IN_CACHES).await;
            let fault = network::partition(&[replica], &others)?;
            sleep(isolated).await;
            fault.end()?;
            self.cycles.finish_sessions(sessions).await?;
            let name = format!("one {part} partitioned from all other parts");
            self.rest(FaultKind::Isolation, name, BTreeSet::new()).await;
        }
        Ok(())
    }

    /// A leader that is stopped leads again, by its own clock, until it reads the Lease.
    async fn stop_leaders(&mut self) -> Result<()> {
        for part in [ZERO_SCALER, ADAPTER] {
            let leader = installation::leader(self.client, part).await?;
            let process = container_process::find(&leader, Some(part))?;
            container_process::signal(process, "STOP")?;
            sleep(STOPPED).await;
            container_process::signal(process, "CONT")?;
            println!("  {part} {leader} was stopped for {STOPPED:?}");
            self.rest(FaultKind::Stops, format!("leader of {part} stopped"), BTreeSet::new()).await;
        }
        Ok(())
    }

    async fn kill_in_turn(&mut self) -> Result<()> {
        let end = Instant::now() + self.phase * KILLS;
        for (number, victim) in VICTIMS.into_iter().cycle().enumerate() {
            if Instant::now() >= end {
                break;
            }
            match kills::kill(self.client, self.namespace, victim, number / VICTIMS.len()).await {
                Ok(kill) => self.kills.push(kill),
                Err(error) => println!("  no {victim} is killed: {error:#}"),
            }
            sleep(KILL_INTERVAL).await;
        }
        self.rest(FaultKind::Kills, "processes killed".to_owned(), BTreeSet::new()).await;
        Ok(())
    }

    /// The workloads that have ready pods and are not about to lose them.
    async fn with_pods(&self) -> Result<BTreeSet<String>> {
        let deployments = self.namespace.api::<Deployment>().list(&ListParams::default()).await?;
        let is_ready = |deployment: &&Deployment| {
            let ready = deployment.status.as_ref().and_then(|status| status.ready_replicas);
            ready.unwrap_or(0) > 0 && deployment.spec.replicas != Some(0)
        };
        Ok(deployments.iter().filter(is_ready).map(ResourceExt::name_any).collect())
    }

    async fn ips(&self, component: &str) -> Result<Vec<IpAddr>> {
        let pods = installation::system_api::<Pod>(self.client);
        let pods = pods.list(&installation::component_selector(component)).await?.items;
        let ready = pods.iter().filter(|pod| is_ready(pod));
        let ips = ready.filter_map(|pod| pod.status.as_ref()?.pod_ip.as_ref());
        ips.map(|ip| ip.parse().with_context(|| ip.clone())).collect()
    }
}

/// Any two parts of the installation.
fn pairs() -> Vec<(&'static str, &'static str)> {
    let pairs = COMPONENTS
        .iter()
        .enumerate()
        .flat_map(|(at, one)| COMPONENTS.iter().skip(at + 1).map(move |other| (*one, *other)));
    pairs.collect()
}
