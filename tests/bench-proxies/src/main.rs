//! Compares our proxies with nginx and haproxy: rate, latency, CPU time per request, memory.
//!
//! ```text
//!   load (this process) ─► proxy (one of several, in turn) ─► backend (this process)
//!            └───────────────────── direct ──────────────────────►┘
//! ```
//!
//! All of it shares the cores of one machine, so absolute rates say more of the machine than of the proxies. What counts is the
//! ratio to nginx in the same round, and the CPU time of the proxy's own processes.

mod args;
mod backend;
mod campaign;
mod held;
mod load;
mod machine;
mod poller;
mod profile;
mod proxy;
mod report;
mod response;
mod results;
mod soak;
mod summary;
mod verdict;

use std::fs::{self, File, TryLockError};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench_proxies::{clock, cpu_time, debian, memory, process, table};
use clap::Parser;
use rustix::process::{Resource, Rlimit};

use crate::args::Args;
use crate::campaign::Campaign;
use crate::machine::Watch;
use crate::proxy::Proxy;

/// Open files: what the activator should hold, with room. The comparison needs two thousand.
const OPEN_FILES: u64 = 65_536;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let directory = args.cache.join("bench-proxies");
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let _lock = lock(&directory)?;
    raise_file_limit()?;

    // A proxy is given two cores' worth of threads; on a larger machine the others are for the load.
    let threads = (machine::cores() / 2).clamp(1, 4);
    if let Some(activator) = args.activator.as_deref().filter(|_| args.held) {
        let met = held::run(activator, threads, &directory)?;
        return Ok(if args.strict && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let backend = backend::start(threads)?;
    if let Some(seconds) = args.soak {
        let proxy = proxy::soaked(args.queue_proxy.as_deref(), args.activator.as_deref());
        let proxy = proxy.context("--queue-proxy or --activator is missing")?;
        soak::run(&proxy, backend, &directory, threads, Duration::from_secs(seconds))?;
        return Ok(ExitCode::SUCCESS);
    }
    let queue_proxy = args.queue_proxy.as_deref().context("--queue-proxy is missing")?;
    let peers = debian::ensure(&directory.join("debian"), &proxy::PACKAGES, &proxy::PROGRAMS)?;
    let proxies = proxy::all(&peers, queue_proxy, args.activator.as_deref());
    match &args.profile {
        Some(name) => profile(find(&proxies, name)?, backend, &directory, threads),
        None => compare(&args, &proxies, backend, &directory, threads),
    }
}

fn profile(proxy: &Proxy, backend: SocketAddr, directory: &Path, threads: usize) -> Result<ExitCode> {
    profile::run(proxy, backend, directory, threads)?;
    Ok(ExitCode::SUCCESS)
}

fn compare(
    args: &Args,
    proxies: &[Proxy],
    backend: SocketAddr,
    directory: &Path,
    threads: usize,
) -> Result<ExitCode> {
    let extent = args.extent();
    println!("{}", machine::describe());
    for proxy in proxies {
        println!("{}: {}", proxy.name, proxy.version()?);
    }
    println!("{} rounds, {:?} each time", extent.rounds, extent.duration);

    let watch = Watch::start()?;
    let campaign = Campaign { proxies, backend, directory, extent, threads };
    let results = campaign.run()?;
    let disturbance = watch.disturbance()?;

    let connections = &campaign.extent.connections;
    report::figures(proxies, &results, connections)?;
    let verdicts = verdict::all(proxies, &results, connections)?;
    report::verdicts(&verdicts);
    println!("\n{disturbance}");
    let missed = verdicts.iter().filter(|verdict| !verdict.met).count();
    println!("{missed} of {} bounds missed.", verdicts.len());
    Ok(if args.strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn find<'a>(proxies: &'a [Proxy], name: &str) -> Result<&'a Proxy> {
    let names = || proxies.iter().map(|proxy| proxy.name).collect::<Vec<_>>().join(", ");
    proxies
        .iter()
        .find(|proxy| proxy.name == name)
        .with_context(|| format!("{name:?} is none of: {}", names()))
}

/// Two runs at a time would measure each other.
fn lock(directory: &Path) -> Result<File> {
    let file = File::create(directory.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another run is under way"),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock"),
    }
}

/// For this process and the proxies.
fn raise_file_limit() -> Result<()> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < OPEN_FILES) {
        let most = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })?;
    }
    Ok(())
}
