//! `--without-sidecars`: two activators that carry many workloads without sidecars, each with the
//! same small load.
//!
//! ```text
//!   load (this process) ─┬─► activator 1 ─┬─► pods (this process, an address of loopback each)
//!                        └─► activator 2 ─┘
//! ```
//!
//! Such activators are always in the path, so this is what a cluster of sleeping workloads costs
//! while all of them are awake. The same load straight to the pods shows how much latency the
//! machine and the load itself add: everything shares the machine's cores.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::memory;
use bench_proxies::process::{Process, Program};
use bench_proxies::table::{self, Table};

use crate::traffic::{Generator, LoadStats, RequestRate, backend};

/// Requests a second to each workload, over both activators.
const RATE: f64 = 50.0;
/// Parts of the rate that are measured, up to the whole.
const PARTS: [f64; 3] = [0.25, 0.5, 1.0];
/// Share of the due requests that must be answered within a measurement.
const ANSWERED: f64 = 0.99;
const PODS: u16 = 2;
/// Of each activator to each workload.
const CONNECTIONS: usize = 2;
/// The first ports, below the kernel's ephemeral ones; each activator has one for each workload.
const FIRST_PORTS: [u16; 2] = [20_000, 25_000];
const ADMIN_PORTS: [u16; 2] = [19_998, 19_999];
const WARM_UP: Duration = Duration::from_secs(3);
const MEASURED: Duration = Duration::from_secs(20);

/// The addresses for one workload after the other, and the processes in between.
struct Targets {
    name: &'static str,
    addresses: Vec<SocketAddr>,
    processes: Vec<u32>,
}

/// Measures and prints everything, and returns whether every request was answered.
///
/// # Errors
/// When an activator cannot be run.
pub(crate) fn run(activator: &Path, workloads: u16, threads: usize, directory: &Path) -> Result<bool> {
    let pod_port = backend::start_on(Ipv4Addr::UNSPECIFIED, threads)?.port();
    let mut activators = Vec::new();
    for number in 0..FIRST_PORTS.len() {
        activators.push(start(activator, number, workloads, pod_port, directory)?);
    }
    let through = Targets {
        name: "two activators",
        addresses: (0..workloads).flat_map(ports_of).map(|port| (Ipv4Addr::LOCALHOST, port).into()).collect(),
        processes: activators.iter().map(Process::id).collect(),
    };
    let pods = (0..workloads).flat_map(|workload| (0..PODS).map(move |pod| pod_ip(workload, pod)));
    let direct = Targets {
        name: "straight to the pods",
        addresses: pods.map(|ip| (ip, pod_port).into()).collect(),
        processes: Vec::new(),
    };
    let mut table = Table::new(&[
        "",
        "requests/s",
        "answered/s",
        "p50",
        "p99",
        "failed",
        "late",
        "CPU",
        "kernel",
        "CPU/request",
        "memory",
    ]);
    let mut is_met = true;
    for part in PARTS {
        for targets in [&direct, &through] {
            let due = RATE * f64::from(workloads) * part;
            is_met &= measure(targets, due, threads, &mut table)?;
        }
    }
    println!("{workloads} workloads without sidecars, {PODS} pods each, behind two activators");
    print!("{table}");
    println!(
        "{}",
        if is_met { "met    every request was answered" } else { "MISSED not every request was answered" }
    );
    Ok(is_met)
}

/// Adds a row, and returns whether all requests were answered, and in time.
fn measure(targets: &Targets, due: f64, threads: usize, table: &mut Table) -> Result<bool> {
    let all: Vec<SocketAddr> =
        std::iter::repeat_n(&targets.addresses, CONNECTIONS).flatten().copied().collect();
    let mut generator = Generator::connect_each(&all, threads)?;
    generator.run(RequestRate::PerSecond(due), WARM_UP)?;
    let before = CpuTime::of(&targets.processes)?;
    let stats: LoadStats = generator.run(RequestRate::PerSecond(due), MEASURED)?;
    let used = CpuTime::of(&targets.processes)?.since(&before);
    let of_processes = |cell: String| if targets.processes.is_empty() { String::new() } else { cell };
    let answered = stats.answered as f64 / MEASURED.as_secs_f64();
    let cpu = used.total.as_secs_f64();
    table.row(vec![
        targets.name.to_owned(),
        table::count(due),
        table::count(answered),
        table::latency(stats.quantile(0.5).as_secs_f64()),
        table::latency(stats.quantile(0.99).as_secs_f64()),
        stats.failed.to_string(),
        stats.unanswered.to_string(),
        of_processes(format!("{:.0} m", cpu / MEASURED.as_secs_f64() * 1000.0)),
        of_processes(format!("{:.0} %", used.kernel * 100.0)),
        of_processes(table::latency(cpu / (stats.answered as f64).max(1.0))),
        of_processes(table::bytes(memory::resident(&targets.processes)? as f64)),
    ]);
    Ok(stats.failed == 0 && answered >= ANSWERED * due)
}

/// An activator that listens for all workloads.
fn start(path: &Path, number: usize, workloads: u16, pod_port: u16, directory: &Path) -> Result<Process> {
    let port_of = |workload| ports_of(workload).nth(number).context("no port");
    let mut file = "workloads:\n".to_owned();
    for workload in 0..workloads {
        let pods: Vec<String> =
            (0..PODS).map(|pod| format!("{{ip: {}, ready: true}}", pod_ip(workload, pod))).collect();
        file += &format!(
            "- {{name: bench/w{workload}, sidecar: false, ports: [{{listen: {}, pod: {pod_port}}}], pods: [{}]}}\n",
            port_of(workload)?,
            pods.join(", ")
        );
    }
    let name = format!("activator-{number}");
    let workloads_file = directory.join(format!("{name}.yaml"));
    fs::write(&workloads_file, file).with_context(|| workloads_file.display().to_string())?;
    let admin_port = ADMIN_PORTS.get(number).context("no admin port")?;
    let program = Program {
        path: path.to_owned(),
        arguments: vec![
            format!("--workloads={}", workloads_file.display()).into(),
            format!("--admin-port={admin_port}").into(),
            "--drain-grace=0s".into(),
        ],
        environment: Vec::new(),
        log: directory.join(format!("{name}.log")),
    };
    let mut process = Process::start(program)?;
    process.wait_for_listening((Ipv4Addr::LOCALHOST, port_of(workloads - 1)?).into())?;
    Ok(process)
}

/// The port of a workload on each activator.
fn ports_of(workload: u16) -> impl Iterator<Item = u16> {
    FIRST_PORTS.into_iter().map(move |first| first + workload)
}

/// An address of loopback.
fn pod_ip(workload: u16, pod: u16) -> Ipv4Addr {
    let [high, low] = workload.to_be_bytes();
    Ipv4Addr::new(127, 64 + high, low, u8::try_from(pod + 1).unwrap_or(u8::MAX))
}
