//! The activator while it holds: what held requests and open ports cost in memory, how fast requests leave once there is a
//! pod for them, and what the callers of another workload feel of it.
//!
//! ```text
//!   callers (this process) ─► activator --workloads FILE ─ holds ... a pod is added to FILE ... ─► backend (this process)
//! ```
//!
//! Its bounds are for 50,000 requests on as many connections. Where a process may not open so many files, as many are held as
//! it may, and the bound is that much smaller.

mod callers;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::process::{Resource, Rlimit};

use self::callers::Callers;
use crate::cpu_time::CpuTime;
use crate::load::{Generator, Pace};
use crate::process::{Process, Program};
use crate::{backend, clock, memory};

/// Requests that should be held, and what they may take together, in bytes.
const REQUESTS: usize = 50_000;
const REQUESTS_MEMORY: u64 = 600 << 20;
/// Ports that should be open, and what a process with all of them may take.
const LISTENERS: u16 = 10_000;
const LISTENERS_MEMORY: u64 = 150 << 20;
/// Requests that should leave in a second when there is a pod.
const RELEASED_PER_SECOND: f64 = 20_000.0;
/// Requests a second for a workload that is awake, and for how long at a time.
const NEIGHBOUR: Pace = Pace::PerSecond(100.0);
const NEIGHBOUR_TIME: Duration = Duration::from_secs(2);
/// Of a crowd's thread.
const CROWD_NICENESS: i32 = 10;
/// How much longer its 99th percentile may get while the other workload's requests come, are held, and go: than alone, or at the
/// same time without an activator between, for the crowd takes from the same cores.
const NEIGHBOUR_P99: f64 = 2.0;
/// Of a pod with a limit; its connections need files as well.
const CONTAINER_CONCURRENCY: u32 = 100;
/// Files for everything but the callers' connections.
const OTHER_FILES: u64 = 1500;
/// Below the ports that the kernel gives to clients.
const FIRST_PORT: u16 = 20_000;
const ADMIN_PORT: u16 = 19_999;
/// Longest wait for the activator to do as it should.
const PATIENCE: Duration = Duration::from_secs(60);

/// An activator and the file that it follows.
struct Activator {
    process: Process,
    file: PathBuf,
}

/// Requests for a workload that is awake, while another's callers flood the activator.
struct Neighbour {
    address: SocketAddr,
    pod: SocketAddr,
    /// The 99th percentile of its latencies when it is alone.
    alone: Duration,
}

/// The 99th percentile of its latencies at some time, and what it was without an activator between.
struct Felt {
    through: Duration,
    direct: Duration,
}

/// Measures all, prints it, and tells whether every bound was met.
///
/// # Errors
/// When the activator cannot be run or loses a request.
pub(crate) fn run(activator: &Path, threads: usize, directory: &Path) -> Result<bool> {
    let listening = listeners(activator, directory)?;
    // The neighbour has a pod of its own, or its requests would wait there behind the crowd.
    let pods = [backend::start(threads)?, backend::start(1)?];
    let holding = requests(activator, pods, directory, CONTAINER_CONCURRENCY)?;
    let crowding = requests(activator, pods, directory, 0)?;
    Ok(listening && holding && crowding)
}

fn listeners(path: &Path, directory: &Path) -> Result<bool> {
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
    let bound = share(LISTENERS_MEMORY, count.into(), LISTENERS.into());
    Ok(verdict(&format!("{count} open ports"), resident, bound))
}

/// The pods of the flooded workload and of its neighbour are `backend` and `quiet`.
fn requests(path: &Path, [backend, quiet]: [SocketAddr; 2], directory: &Path, limit: u32) -> Result<bool> {
    let count = usize::try_from(open_files().saturating_sub(OTHER_FILES))?.min(REQUESTS);
    let ready = |pod: SocketAddr| format!("{{ip: {}, ready: true}}", pod.ip());
    let workloads = |pods: &str| {
        let held = workload_at(FIRST_PORT, backend.port(), limit, pods);
        format!("workloads:\n{held}{}", workload_at(FIRST_PORT + 1, quiet.port(), limit, &ready(quiet)))
    };
    let mut activator = Activator::start(path, directory, &workloads(""))?;
    activator.process.wait_for_listening((Ipv4Addr::LOCALHOST, FIRST_PORT).into())?;
    let neighbour = Neighbour::meet((Ipv4Addr::LOCALHOST, FIRST_PORT + 1).into(), quiet, &mut activator)?;
    let at_rest = activator.resident()?;

    println!(
        "{count} callers of a pod {}:",
        if limit == 0 { "without a limit".to_owned() } else { format!("that takes {limit} at a time") }
    );
    let (mut callers, arriving) = neighbour.beside(|| Callers::connect(FIRST_PORT, count))?;
    wait("hold every request", || Ok(held()? == count))?;
    let resident = activator.resident()?;
    let each = (resident - at_rest.min(resident)) / count as u64;
    println!("  {each} bytes for each held request");
    let small = verdict(&format!("{count} held requests"), resident, share(REQUESTS_MEMORY, count, REQUESTS));
    let ((), waiting) = neighbour.beside(|| Ok(()))?;

    let before = activator.cpu_time()?;
    activator.say(&workloads(&ready(backend)))?;
    let (answers, leaving) = neighbour.beside(|| callers.answers(PATIENCE))?;
    ensure!(answers.lost == 0, "{} of {count} requests were lost: {}", answers.lost, answers.last_loss);
    let used = activator.cpu_time()?.since(&before).total.as_secs_f64() / count as f64;
    let rate = count as f64 / answers.took.as_secs_f64();
    let fast = rate >= RELEASED_PER_SECOND;
    println!("{} released: {rate:.0} a second, of at least {RELEASED_PER_SECOND:.0}", mark(fast));
    println!(
        "  {:.1} µs of CPU time each; after that {:.1} MiB",
        used * 1e6,
        mebibytes(activator.resident()?)
    );
    let phases = [("arrive", arriving), ("wait", waiting), ("leave", leaving)];
    let unmoved = phases.map(|(what, felt)| neighbour.is_unmoved(what, felt));
    Ok(small && fast && unmoved.into_iter().all(|unmoved| unmoved))
}

/// A crowd has machines of its own. Here its thread lets all others go first.
fn stand_back() -> Result<()> {
    rustix::process::setpriority_process(None, CROWD_NICENESS).context("niceness")
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
}

fn p99(of: SocketAddr) -> Result<Duration> {
    let tally = Generator::connect(of, 1, 1)?.run(NEIGHBOUR, NEIGHBOUR_TIME)?;
    ensure!(tally.failed == 0, "a neighbour's request failed: {}", tally.last_failure);
    Ok(tally.quantile(0.99))
}

fn verdict(what: &str, resident: u64, bound: u64) -> bool {
    let met = resident <= bound;
    println!("{} {what}: {:.1} MiB, of {:.1} at most", mark(met), mebibytes(resident), mebibytes(bound));
    met
}

fn mark(met: bool) -> &'static str {
    if met { "met   " } else { "MISSED" }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// As much of a bound as there is of what it is for.
fn share(bound: u64, count: usize, of: usize) -> u64 {
    (bound as f64 * count as f64 / of as f64) as u64
}

fn workload(port: u16, pods: &str) -> String {
    workload_at(port, 8012, CONTAINER_CONCURRENCY, pods)
}

fn workload_at(listen: u16, pod: u16, limit: u32, pods: &str) -> String {
    format!(
        "- {{name: bench/w{listen}, ports: [{{listen: {listen}, pod: {pod}}}], pods: [{pods}], \
         containerConcurrency: {limit}}}\n"
    )
}

/// What one process may open.
fn open_files() -> u64 {
    let Rlimit { current, .. } = rustix::process::getrlimit(Resource::Nofile);
    current.unwrap_or(u64::MAX)
}

/// As the activator counts them.
fn held() -> Result<usize> {
    let metrics = callers::get((Ipv4Addr::LOCALHOST, ADMIN_PORT).into(), "/metrics")?;
    let held = metrics.lines().find_map(|line| line.strip_prefix("rouse_activator_held_requests{"));
    Ok(held.and_then(|line| line.rsplit(' ').next()?.trim().parse().ok()).unwrap_or(0))
}

fn wait(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let end: Instant = clock::now() + PATIENCE;
    while !is_so()? {
        ensure!(clock::now() < end, "the activator does not {what} within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

// === impl Neighbour ===

impl Neighbour {
    fn meet(address: SocketAddr, pod: SocketAddr, activator: &mut Activator) -> Result<Self> {
        activator.process.wait_for_listening(address)?;
        Ok(Self { address, pod, alone: p99(address)? })
    }

    /// What it feels while a crowd does something.
    fn beside<T: Send>(&self, something: impl FnOnce() -> Result<T> + Send) -> Result<(T, Felt)> {
        thread::scope(|scope| {
            let [through, direct] = [self.address, self.pod].map(|to| scope.spawn(move || p99(to)));
            let crowd = scope.spawn(|| stand_back().and_then(|()| something()));
            Ok((joined(crowd)?, Felt { through: joined(through)?, direct: joined(direct)? }))
        })
    }

    fn is_unmoved(&self, what: &str, felt: Felt) -> bool {
        let (Felt { through, direct }, alone) = (felt, self.alone);
        let unmoved = through <= alone.max(direct).mul_f64(NEIGHBOUR_P99);
        println!(
            "{} p99 of a neighbour while they {what}: {through:.1?}, alone {alone:.1?}; past the activator {direct:.1?}",
            mark(unmoved)
        );
        unmoved
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
            format!("--queue-depth={REQUESTS}"),
            format!("--total-queue-depth={REQUESTS}"),
            "--wake-timeout=600s".to_owned(),
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

    fn say(&self, workloads: &str) -> Result<()> {
        let new = self.file.with_extension("new");
        fs::write(&new, workloads)?;
        Ok(fs::rename(new, &self.file)?)
    }
}
