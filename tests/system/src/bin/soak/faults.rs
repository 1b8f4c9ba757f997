//! Scenario: faults without an attacker. Workloads sleep and wake while packets are lost or delayed,
//! parts are cut off from each other, and processes are killed.

mod kills;
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
use system_tests::timeline::now_ms;
use system_tests::workloads::workload::until_replicas;
use tokio::time::{Instant, sleep};

use self::kills::{FailuresByKill, Kill};
use self::load::{Cycles, LOAD};
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
const ACTIVATOR: &str = "activator";
const LOSS_PERCENT: u32 = 5;
const DELAY_MS: u32 = 200;
/// Time after the kill of an activator in which new connections may fail: until it has left the
/// slices and kube-proxy has followed.
const OUTAGE: Duration = Duration::from_secs(1);

pub(crate) async fn run(client: &Client, lengths: &crate::args::Lengths, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-faults").await?;
    let phase = Duration::from_secs(lengths.fault_seconds);
    // Loss, delay, three partitions, kills, each with a rest.
    let faults = if lengths.only_kills { 1 } else { 6 };
    let end = Instant::now() + (phase + 2 * REST) * faults + UP;
    let mut cycles = Cycles::start(&namespace, WORKLOADS, end).await?;
    let mut phases = Phases { report, cycles: &cycles };

    if !lengths.only_kills {
        disturb_network(client, phase, &mut phases).await?;
    }
    let kills = kill_in_turn(client, phase).await?;
    phases.count_by_kill(&kills).await;

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

/// Packets are lost, then delayed, then parts are cut off from each other.
async fn disturb_network(client: &Client, phase: Duration, phases: &mut Phases<'_>) -> Result<()> {
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
    Ok(())
}

/// Counts failures fault by fault.
struct Phases<'a> {
    report: &'a mut Report,
    cycles: &'a Cycles,
}

// === impl Phases ===

impl Phases<'_> {
    /// Counts the failures since the last call. Those of loads that have not ended yet count later.
    async fn count(&mut self, cause: &str, bound: usize) {
        sleep(REST).await;
        let failed = self.cycles.counts.take_failed().len();
        self.report.count(&format!("failed requests, {cause}"), failed, bound);
    }

    /// The same, for kills: only requests that the killed process held may fail, and new ones for as
    /// long as nodes lead to a killed activator.
    async fn count_by_kill(&mut self, kills: &[Kill]) {
        // The results of a load come at its end.
        sleep(REST + LOAD).await;
        let failures = FailuresByKill::of(&self.cycles.counts.take_failed(), kills);
        for part in COMPONENTS {
            let killed = kills.iter().filter(|kill| kill.part == part).count();
            let in_flight = failures.in_flight.get(part).copied().unwrap_or_default();
            let (after, latest) = failures.begun_after.get(part).copied().unwrap_or_default();
            let name = format!("{killed} kills of {part}: failed requests");
            if part == ACTIVATOR {
                self.report.note(&format!("{name} in flight"), in_flight.to_string());
                self.report.note(&format!("{name} begun later"), after.to_string());
                let bound = OUTAGE.as_secs_f64() * 1000.0;
                self.report.time(&format!("{name}, the last begun after"), latest, bound);
            } else {
                self.report.count(&name, in_flight + after, 0);
            }
        }
        self.report.count("failed requests far from a kill", failures.unexplained, 0);
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

/// Kills one process of each part in turn.
async fn kill_in_turn(client: &Client, phase: Duration) -> Result<Vec<Kill>> {
    let (end, mut kills) = (Instant::now() + phase, Vec::new());
    for part in COMPONENTS.into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        if let Some(pod) = installation::ready_pods(client, part).await?.first() {
            kills.push(Kill { part, at_ms: now_ms() });
            installation::kill(client, pod).await?;
        }
        sleep(KILL_INTERVAL).await;
    }
    Ok(kills)
}
