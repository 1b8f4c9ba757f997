//! Scenario: faults without an attacker. Workloads sleep and wake while packets are lost or
//! delayed, parts are cut off from each other, the API server is gone, clocks are stepped, disks
//! are full, and processes are killed.

mod clock;
mod disk;
mod injection;
mod kills;
mod load;
mod network;
pub(crate) mod packet_delay;
mod usage;

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use kube::Client;
use system_tests::cluster::installation::{self, COMPONENTS};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::wait;
use system_tests::workloads::workload::replicas;
use tokio::time::{Instant, sleep};

use self::injection::{Injection, REST};
use self::kills::{ACTIVATOR, FailuresByKill, VICTIMS};
use self::load::{Cycles, FailedRequest};
use self::usage::Usage;
use crate::args::{FaultKind, Lengths};
use crate::report::Report;

/// Time to the right size after the last fault and the last request.
const SETTLED: Duration = Duration::from_secs(30);
const UP: Duration = Duration::from_secs(120);
/// Half of them have requests at a time: 200 a second.
const WORKLOADS: usize = 20;
/// Time after the kill of an activator in which new connections may fail: until it has left the
/// slices and kube-proxy has followed.
const OUTAGE: Duration = Duration::from_secs(1);
/// The same of a pod's process. Only the kubelet sees its end, which lists processes each second,
/// and starts it again.
const POD_OUTAGE: Duration = Duration::from_secs(5);
/// More memory and descriptors at the end than at the start, all workloads being at zero.
const MORE_MEBIBYTES: usize = 64;
const MORE_DESCRIPTORS: usize = 64;

pub(crate) async fn run(client: &Client, lengths: &Lengths, report: &mut Report) -> Result<()> {
    installation::set_grace_period(client, "1s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-soak-faults").await?;
    let mut before = Vec::new();
    let mut cycles = Cycles::start(&namespace, WORKLOADS).await?;
    for part in COMPONENTS {
        before.push((part, Usage::of(client, part).await?));
    }
    sleep(REST).await;

    let phase = Duration::from_secs(lengths.fault_seconds);
    let mut injection = Injection::new(client, &namespace, &cycles, phase);
    let kinds = if lengths.faults.is_empty() { FaultKind::value_variants() } else { &lengths.faults };
    for kind in kinds {
        injection.inject(*kind).await?;
    }
    let Injection { faults, kills, .. } = injection;
    cycles.finish().await?;
    count_wrong_sizes(&namespace, &cycles, report).await;
    let failed = cycles.counts.failed();
    report.note("requests", cycles.counts.sent.load(Ordering::Relaxed).to_string());
    count_failures(&failed, &faults, report);
    if !kills.is_empty() {
        let during_kills = failed.iter().filter(|failed| injection::is_of_kills(failed, &faults));
        count_by_kill(&FailuresByKill::of(during_kills, &kills), &kills, report);
    }
    installation::until_ready(client, UP).await?;
    for (part, before) in before {
        let after = Usage::of(client, part).await?;
        let (memory, descriptors) =
            (before.mebibytes + MORE_MEBIBYTES, before.descriptors + MORE_DESCRIPTORS);
        report.count(&format!("MiB of {part}, {} before", before.mebibytes), after.mebibytes, memory);
        let name = format!("descriptors of {part}, {} before", before.descriptors);
        report.count(&name, after.descriptors, descriptors);
    }
    namespace.delete().await
}

/// Counts the workloads that are not at zero in time, which all have together.
async fn count_wrong_sizes(namespace: &TestNamespace, cycles: &Cycles, report: &mut Report) {
    let end = Instant::now() + SETTLED;
    let mut wrong = 0;
    for name in &cycles.names {
        let left = end.saturating_duration_since(Instant::now());
        let what = format!("{name} to be at zero");
        let settled =
            wait::until(&what, left, || async { Ok((replicas(namespace, name).await? == 0).then_some(())) });
        wrong += usize::from(settled.await.inspect_err(|error| println!("  {error:#}")).is_err());
    }
    report.count(&format!("workloads not at zero {SETTLED:?} after their load"), wrong, 0);
}

fn count_failures(failed: &[FailedRequest], faults: &[injection::EndedFault], report: &mut Report) {
    for fault in faults.iter().filter(|fault| fault.kind != FaultKind::Kills) {
        let all = failed.iter().filter(|failed| injection::is_of(failed, fault, faults));
        let (at_zero, others): (Vec<_>, Vec<_>) =
            all.partition(|failed| fault.at_zero.contains(&failed.workload));
        report.count(&format!("failed requests, {}", fault.name), others.len(), 0);
        if !fault.at_zero.is_empty() {
            let name = format!("failed requests to workloads that could not wake, {}", fault.name);
            report.note(&name, at_zero.len().to_string());
        }
    }
    let since_last =
        failed.iter().filter(|failed| !faults.iter().any(|fault| failed.begin() <= fault.end_ms));
    report.count("failed requests after the last fault", since_last.count(), 0);
}

/// Only requests that the killed process held may fail, and new ones for as long as nodes lead to a
/// killed activator or pod.
fn count_by_kill(failures: &FailuresByKill, kills: &[kills::Kill], report: &mut Report) {
    for victim in VICTIMS {
        let killed = kills.iter().filter(|kill| kill.victim == victim).count();
        let in_flight = failures.in_flight.get(victim).copied().unwrap_or_default();
        let (after, latest) = failures.begun_after.get(victim).copied().unwrap_or_default();
        let name = format!("{killed} kills of {victim}: failed requests");
        let outage = match victim {
            ACTIVATOR => OUTAGE,
            of_installation if COMPONENTS.contains(&of_installation) => {
                report.count(&name, in_flight + after, 0);
                continue;
            }
            _ => POD_OUTAGE,
        };
        report.note(&format!("{name} in flight"), in_flight.to_string());
        report.note(&format!("{name} begun later"), after.to_string());
        report.time(&format!("{name}, the last begun after"), latest, outage.as_secs_f64() * 1000.0);
    }
    report.count("failed requests that no kill explains", failures.unexplained, 0);
}
