//! Scenario: faults without an attacker. Workloads sleep and wake while packets are lost or delayed,
//! parts are cut off from each other, and processes are killed.

mod load;
mod network;

use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use system_tests::cluster::installation::{self, COMPONENTS};
use system_tests::cluster::namespace::{TestNamespace, is_ready};
use system_tests::workloads::workload::until_replicas;
use tokio::time::{Instant, sleep};

use self::load::{Cycles, RATE};
use crate::report::Report;

/// From one kill to the next.
const KILL_INTERVAL: Duration = Duration::from_secs(20);
/// After a fault, before the next one.
const REST: Duration = Duration::from_secs(10);
/// Time to the right size after the last fault and the last request.
const SETTLED: Duration = Duration::from_secs(30);
const UP: Duration = Duration::from_secs(120);
/// Half of them have requests at a time: 200 a second.
const WORKLOADS: usize = 20;
const LOSS_PERCENT: u32 = 5;
const DELAY_MS: u32 = 200;
/// Requests that a kill may fail: those in flight on the killed activator, and new connections until
/// it has left the slices. Half of the workloads have requests at a time.
const OUTAGE: Duration = Duration::from_secs(1);

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-faults").await?;
    let phase = Duration::from_secs(lengths.fault_seconds);
    // Loss, delay, three partitions, kills, each with a rest.
    let end = Instant::now() + (phase + 2 * REST) * 6 + UP;
    let mut cycles = Cycles::start(&namespace, WORKLOADS, end).await?;
    let mut phases = Phases { report, cycles: &cycles, failed: 0 };

    let fault = network::lose(LOSS_PERCENT)?;
    sleep(phase).await;
    fault.end()?;
    phases.count(&format!("{LOSS_PERCENT} % of packets were lost"), 0).await;

    let fault = network::delay(DELAY_MS)?;
    sleep(phase).await;
    fault.end()?;
    phases.count(&format!("packets were delayed by {DELAY_MS} ms"), 0).await;

    for (one, other) in pairs() {
        let fault = network::partition(&ips(client, one).await?, &ips(client, other).await?)?;
        sleep(phase).await;
        fault.end()?;
        phases.count(&format!("{one} and {other} were cut off from each other"), 0).await;
    }

    let kills = kill_in_turn(client, phase).await?;
    let busy = WORKLOADS as f64 / 2.0;
    let bound = kills as f64 * busy * RATE * OUTAGE.as_secs_f64() / 2.0;
    phases.count(&format!("{kills} processes were killed"), bound.ceil() as usize).await;

    cycles.finish().await?;
    for name in &cycles.names {
        let settled = until_replicas(&namespace, name, |replicas| replicas == 0, SETTLED).await;
        let wrong = settled.inspect_err(|error| println!("  {error:#}")).is_err();
        report.count(&format!("{name} not at zero {SETTLED:?} after its load"), usize::from(wrong), 0);
    }
    report.note("requests", cycles.counts.sent.load(Ordering::Relaxed).to_string());
    installation::until_ready(client, UP).await?;
    namespace.delete().await
}

/// Counts failures fault by fault.
struct Phases<'a> {
    report: &'a mut Report,
    cycles: &'a Cycles,
    /// Up to the last fault.
    failed: usize,
}

// === impl Phases ===

impl Phases<'_> {
    /// Counts the failures since the last call. Those of loads that have not ended yet count later.
    async fn count(&mut self, cause: &str, bound: usize) {
        sleep(REST).await;
        let failed = self.cycles.counts.failed.load(Ordering::Relaxed);
        self.report.count(&format!("failed requests, {cause}"), failed - self.failed, bound);
        self.failed = failed;
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

async fn ips(client: &Client, component: &str) -> Result<Vec<IpAddr>> {
    let pods = installation::system_api::<Pod>(client);
    let pods = pods.list(&installation::component_selector(component)).await?.items;
    let ips = pods.iter().filter(|pod| is_ready(pod)).filter_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    ips.map(|ip| ip.parse().with_context(|| ip.clone())).collect()
}

/// Kills one process of each part in turn, and returns how many.
async fn kill_in_turn(client: &Client, phase: Duration) -> Result<usize> {
    let (end, mut kills) = (Instant::now() + phase, 0);
    for part in COMPONENTS.iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        if let Some(pod) = installation::ready_pods(client, part).await?.first() {
            installation::kill(client, pod).await?;
            kills += 1;
        }
        sleep(KILL_INTERVAL).await;
    }
    Ok(kills)
}
