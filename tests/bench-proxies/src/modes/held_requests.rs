//! `--held`: the activator's memory with open ports and with held requests, how fast it releases
//! them after a pod was added, and the latency of another workload meanwhile.
//!
//! ```text
//!   clients (this process) ─► activator ─ holds until FILE has a pod ─► backend (this process)
//! ```
//!
//! The bounds are for 50,000 requests on as many connections. If the file limit allows fewer, the
//! bounds scale down with the number.

mod clients;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Resource, Rlimit};

use bench_proxies::cpu_time::CpuTime;
use bench_proxies::process::{Process, Program};
use bench_proxies::{clock, memory};

use self::clients::HeldClients;
use crate::traffic::{Generator, RequestRate, backend};

/// Held requests, and the bound of the activator's memory with all of them, in bytes.
const REQUESTS: usize = 50_000;
const REQUESTS_MEMORY: u64 = 600 << 20;
/// Budget of the activator: more than they take, because one workload gets only a part of the
/// budget.
const MEMORY_BUDGET: u64 = 4 << 30;
/// Open ports, and the bound of the activator's memory with all of them, in bytes.
const LISTENERS: u16 = 10_000;
const LISTENERS_MEMORY: u64 = 150 << 20;
/// Lower bound of released requests per second.
const RELEASED_PER_SECOND: f64 = 20_000.0;
/// Load of the neighbour workload, and the duration of one measurement.
const NEIGHBOUR: RequestRate = RequestRate::PerSecond(100.0);
const NEIGHBOUR_TIME: Duration = Duration::from_secs(2);
/// Niceness of the thread of the flooding clients.
const FLOOD_NICENESS: i32 = 10;
/// Upper bound of the neighbour's 99th percentile during the flood. It is a ratio to the larger of
/// two values: without the flood, and at the same time without the activator, because the flood
/// uses the same cores.
const NEIGHBOUR_P99: f64 = 2.0;
/// Limit of a limited pod; its connections need files as well.
const CONTAINER_CONCURRENCY: u32 = 100;
/// Open files beside the clients' connections.
const OTHER_FILES: u64 = 1500;
/// Below the kernel's ephemeral ports.
const FIRST_PORT: u16 = 20_000;
const ADMIN_PORT: u16 = 19_999;
/// Longest wait for a state of the activator.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An activator and its workloads file.
struct Activator {
    process: Process,
    file: PathBuf,
}

/// A workload above zero whose requests are measured while clients of another workload flood the
/// activator.
struct Neighbour {
    address: SocketAddr,
    pod: SocketAddr,
    /// Its 99th percentile without the flood.
    alone: Duration,
}

/// 99th percentiles of one phase: through the activator, and directly to the pod.
struct NeighbourLatency {
    through: Duration,
    direct: Duration,
}

/// Measures and prints everything, and returns whether every bound was met.
///
/// # Errors
/// When the activator cannot be run or loses a request.
pub(crate) fn run(activator: &Path, threads: usize, directory: &Path) -> Result<bool> {
    let listeners = measure_listeners(activator, directory)?;
    // The neighbour has its own pod; in a shared one its requests would queue behind the flood.
    let pods = [backend::start(threads)?, backend::start(1)?];
    let limited = measure_requests(activator, pods, directory, CONTAINER_CONCURRENCY)?;
    let unlimited = measure_requests(activator, pods, directory, 0)?;
    Ok(listeners && limited && unlimited)
}

fn measure_listeners(path: &Path, directory: &Path) -> Result<bool> {
    let count = LISTENERS.min(u16::try_from(open_files().saturating_sub(OTHER_FILES)).unwrap_or(LISTENERS));
    let ports = FIRST_PORT..FIRST_PORT + count;
    let workloads: String = ports.clone().map(|port| workload(port, "")).collect();
    let mut activator = Activator::start(path, directory, &format!("workloads:\n{workloads}"))?;
    for port in [ports.start, ports.end - 1] {
        activator.process.wait_for_listening((Ipv4Addr::LOCALHOST, port).into())?;
    }
    let all_open = || Ok(activator.files()? >= usize::from(count));
    wait("open its ports", all_open)?;
    let resident = activator.resident()?;
    let bound = scaled(LISTENERS_MEMORY, count.into(), LISTENERS.into());
    Ok(check_memory(&format!("{count} open ports"), resident, bound))
}

/// The pods of the flooded workload and of its neighbour are `backend` and `quiet`.
fn measure_requests(
    path: &Path,
    [backend, quiet]: [SocketAddr; 2],
    directory: &Path,
    limit: u32,
) -> Result<bool> {
    let count = usize::try_from(open_files().saturating_sub(OTHER_FILES))?.min(REQUESTS);
    let ready = |pod: SocketAddr| format!("{{ip: {}, ready: true}}", pod.ip());
    let workloads = |pods: &str| {
        let held = workload_at(FIRST_PORT, backend.port(), limit, pods);
        format!("workloads:\n{held}{}", workload_at(FIRST_PORT + 1, quiet.port(), limit, &ready(quiet)))
    };
    let mut activator = Activator::start(path, directory, &workloads(""))?;
    activator.process.wait_for_listening((Ipv4Addr::LOCALHOST, FIRST_PORT).into())?;
    let neighbour =
        Neighbour::measure_alone((Ipv4Addr::LOCALHOST, FIRST_PORT + 1).into(), quiet, &mut activator)?;
    let idle = activator.resident()?;

    println!(
        "{count} clients of a pod {}:",
        if limit == 0 { "without a limit".to_owned() } else { format!("with a limit of {limit} requests") }
    );
    let (mut clients, arriving) = neighbour.during(|| HeldClients::connect(FIRST_PORT, count))?;
    wait("hold every request", || Ok(held_requests()? == count))?;
    let resident = activator.resident()?;
    let each = (resident - idle.min(resident)) / count as u64;
    println!("  {each} bytes for each held request");
    let small =
        check_memory(&format!("{count} held requests"), resident, scaled(REQUESTS_MEMORY, count, REQUESTS));
    let ((), waiting) = neighbour.during(|| Ok(()))?;

    let before = activator.cpu_time()?;
    activator.set_workloads(&workloads(&ready(backend)))?;
    let (responses, leaving) = neighbour.during(|| clients.responses(TIMEOUT))?;
    ensure!(responses.lost == 0, "{} of {count} requests were lost: {}", responses.lost, responses.last_loss);
    let used = activator.cpu_time()?.since(&before).total.as_secs_f64() / count as f64;
    let rate = count as f64 / responses.took.as_secs_f64();
    let fast = rate >= RELEASED_PER_SECOND;
    println!("{} release rate: {rate:.0} requests per second (≥ {RELEASED_PER_SECOND:.0})", mark(fast));
    println!(
        "  {:.1} µs of CPU time for each released request; {:.1} MiB after the release",
        used * 1e6,
        mebibytes(activator.resident()?)
    );
    let phases = [("arrival", arriving), ("holding", waiting), ("release", leaving)];
    let unaffected = phases.map(|(phase, latency)| neighbour.check(phase, latency));
    Ok(small && fast && unaffected.into_iter().all(|unaffected| unaffected))
}

/// Real clients have their own machines, so the flood's thread gives way to all others here.
fn lower_priority() -> Result<()> {
    rustix::process::setpriority_process(None, FLOOD_NICENESS).context("cannot set the niceness")
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
}

fn p99(of: SocketAddr) -> Result<Duration> {
    let stats = Generator::connect(of, 1, 1)?.run(NEIGHBOUR, NEIGHBOUR_TIME)?;
    ensure!(stats.failed == 0, "a request to the neighbour workload failed: {}", stats.last_failure);
    Ok(stats.quantile(0.99))
}

fn check_memory(what: &str, resident: u64, bound: u64) -> bool {
    let met = resident <= bound;
    println!("{} memory with {what}: {:.1} MiB (≤ {:.1})", mark(met), mebibytes(resident), mebibytes(bound));
    met
}

fn mark(met: bool) -> &'static str {
    if met { "met   " } else { "MISSED" }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The bound for `count` instead of `of`.
fn scaled(bound: u64, count: usize, of: usize) -> u64 {
    (bound as f64 * count as f64 / of as f64) as u64
}

fn workload(port: u16, pods: &str) -> String {
    workload_at(port, 8012, CONTAINER_CONCURRENCY, pods)
}

fn workload_at(listen: u16, pod: u16, limit: u32, pods: &str) -> String {
    format!(
        "- {{name: bench/w{listen}, ports: [{{listen: {listen}, pod: {pod}}}], pods: [{pods}], \
         containerConcurrency: {limit}, queueDepth: {REQUESTS}, wakeTimeoutSeconds: 600}}\n"
    )
}

/// The file limit of this process.
fn open_files() -> u64 {
    let Rlimit { current, .. } = rustix::process::getrlimit(Resource::Nofile);
    current.unwrap_or(u64::MAX)
}

/// Held requests, from the activator's metrics.
fn held_requests() -> Result<usize> {
    let metrics = clients::get((Ipv4Addr::LOCALHOST, ADMIN_PORT).into(), "/metrics")?;
    let held = metrics.lines().find_map(|line| line.strip_prefix("rouse_activator_held_requests{"));
    Ok(held.and_then(|line| line.rsplit(' ').next()?.trim().parse().ok()).unwrap_or(0))
}

fn wait(what: &str, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
    let end: Instant = clock::now() + TIMEOUT;
    while !condition()? {
        ensure!(clock::now() < end, "the activator does not {what} within {TIMEOUT:?}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

// === impl Neighbour ===

impl Neighbour {
    fn measure_alone(address: SocketAddr, pod: SocketAddr, activator: &mut Activator) -> Result<Self> {
        activator.process.wait_for_listening(address)?;
        Ok(Self { address, pod, alone: p99(address)? })
    }

    /// Measures the neighbour while the flooding clients run `flood`.
    fn during<T: Send>(&self, flood: impl FnOnce() -> Result<T> + Send) -> Result<(T, NeighbourLatency)> {
        thread::scope(|scope| {
            let [through, direct] = [self.address, self.pod].map(|to| scope.spawn(move || p99(to)));
            let flood = scope.spawn(|| lower_priority().and_then(|()| flood()));
            Ok((joined(flood)?, NeighbourLatency { through: joined(through)?, direct: joined(direct)? }))
        })
    }

    fn check(&self, phase: &str, latency: NeighbourLatency) -> bool {
        let (NeighbourLatency { through, direct }, alone) = (latency, self.alone);
        let met = through <= alone.max(direct).mul_f64(NEIGHBOUR_P99);
        println!(
            "{} p99 of a neighbour workload during {phase}: {through:.1?} (before: {alone:.1?}; direct to its pod: \
             {direct:.1?})",
            mark(met)
        );
        met
    }
}

// === impl Activator ===

impl Activator {
    fn start(path: &Path, directory: &Path, workloads: &str) -> Result<Self> {
        let file = directory.join("workloads.yaml");
        fs::write(&file, workloads).with_context(|| file.display().to_string())?;
        let arguments = [
            format!("--workloads={}", file.display()),
            format!("--admin-port={ADMIN_PORT}"),
            format!("--memory-budget={MEMORY_BUDGET}"),
            "--drain-grace=0s".to_owned(),
        ];
        let program = Program {
            path: path.to_owned(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            log: directory.join("activator.log"),
        };
        Ok(Self { process: Process::start(program)?, file })
    }

    fn resident(&self) -> Result<u64> {
        memory::resident(&[self.process.id()])
    }

    fn cpu_time(&self) -> Result<CpuTime> {
        CpuTime::of(&[self.process.id()])
    }

    fn files(&self) -> Result<usize> {
        let files = format!("/proc/{}/fd", self.process.id());
        Ok(fs::read_dir(&files).context(files)?.count())
    }

    fn set_workloads(&self, workloads: &str) -> Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, workloads)?;
        Ok(fs::rename(new, &self.file)?)
    }
}
