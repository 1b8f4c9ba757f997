//! One run: adoption, a restart, idle time, one change.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::memory;
use bench_proxies::process::{Process, Program};
use fake_api::FakeApi;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::adapter;
use crate::admin::Admin;
use crate::world::{World, pod};

/// No write and no reconcile for this long: the work is finished. Longer than the zero-scaler's
/// interval between two probes of an activator, in case one was slow.
const QUIET: Duration = Duration::from_secs(7);
/// Longest wait for the end of the work.
const DEADLINE: Duration = Duration::from_secs(300);
/// Duration of the idle time.
const IDLE: Duration = Duration::from_secs(20);
/// Time for a clean shutdown.
const TERMINATION: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// More requests a second than the zero-scaler sends.
const UNBOUNDED: u32 = 100_000;
/// Ports of the processes; activators use 20000 to 29999 for workloads.
const ZERO_SCALER: Admin = Admin(19_090);
const ZERO_SCALER_STATS: u16 = 19_080;
const ACTIVATOR: Admin = Admin(19_091);
const ACTIVATOR_SLOTS: u16 = 19_081;

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Measured {
    /// With only the users' objects in place.
    pub(crate) adoption: Start,
    /// With all objects in place.
    pub(crate) restart: Start,
    /// Peak memory of both processes, in bytes.
    pub(crate) memory: u64,
    pub(crate) idle: Idle,
    pub(crate) change: Change,
}

/// A process from its start until its work is finished.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) took: Duration,
    pub(crate) writes: usize,
    pub(crate) cpu: Duration,
}

/// The idle time.
#[derive(Debug)]
pub(crate) struct Idle {
    /// CPU time as a share of one core.
    pub(crate) cpu: f64,
    /// Reconciles a second.
    pub(crate) reconciles: f64,
    pub(crate) writes: usize,
}

/// The work for one change.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) reconciles: u64,
    pub(crate) writes: usize,
}

/// The environment that the processes of a run share.
struct Bench<'a> {
    api: FakeApi,
    program: &'a Path,
    kubeconfig: PathBuf,
    token: PathBuf,
    logs: &'a Path,
    /// Number of API requests that were counted before.
    counted: usize,
}

/// Measures a run.
///
/// # Errors
/// When a process cannot be started, or does not finish its work.
pub(crate) async fn measure(
    workloads: usize,
    zero_scaler: &Path,
    activator: &Path,
    logs: &Path,
) -> Result<Measured> {
    let mut served = JoinSet::new();
    let api = FakeApi::default();
    let (api_listener, decisions) =
        (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    let world = World { workloads, decisions: decisions.local_addr()?.port(), reports: ZERO_SCALER_STATS };
    world.create(&api);
    fs::create_dir_all(logs)?;
    let (kubeconfig, token) = (logs.join("kubeconfig"), logs.join("token"));
    fs::write(&kubeconfig, fake_api::kubeconfig(api_listener.local_addr()?).to_string())?;
    fs::write(&token, "token")?;
    served.spawn(api.clone().serve(api_listener));
    served.spawn(adapter::serve(decisions, world));
    let _activator = start_activator(activator, &kubeconfig, &token, logs).await?;
    let mut bench = Bench { api, program: zero_scaler, kubeconfig, token, logs, counted: 0 };

    let (process, adoption) = bench.start("adoption").await?;
    let adopted = peak_memory(&process)?;
    process.finish(TERMINATION)?;
    bench.writes();
    let (process, restart) = bench.start("restart").await?;
    let idle = bench.idle(&process).await?;
    let change = bench.change(&world).await?;
    let memory = peak_memory(&process)?.max(adopted);
    process.finish(TERMINATION)?;
    Ok(Measured { adoption, restart, memory, idle, change })
}

async fn start_activator(program: &Path, kubeconfig: &Path, token: &Path, logs: &Path) -> Result<Process> {
    let arguments = [
        format!("--admin-port={}", ACTIVATOR.0),
        format!("--slots-port={ACTIVATOR_SLOTS}"),
        format!("--pod-name={}", pod("activator")),
        format!("--token-file={}", token.display()),
    ];
    let process = start(program, &arguments, kubeconfig, logs.join("activator.log"))?;
    let deadline = Instant::now() + DEADLINE;
    while !ACTIVATOR.is_ready().await {
        if Instant::now() > deadline {
            bail!("the activator does not become ready; see {}", logs.display());
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(process)
}

fn start(program: &Path, arguments: &[String], kubeconfig: &Path, log: PathBuf) -> Result<Process> {
    Process::start(Program {
        path: program.to_owned(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: vec![("KUBECONFIG", kubeconfig.into())],
        log,
    })
}

fn cpu_time(process: &Process) -> Result<CpuTime> {
    CpuTime::of(&[process.id()])
}

/// In bytes.
fn peak_memory(process: &Process) -> Result<u64> {
    memory::most_resident(&process.id().to_string())
}

// === impl Bench ===

impl Bench<'_> {
    /// Starts the zero-scaler and waits until its work is finished.
    async fn start(&mut self, part: &str) -> Result<(Process, Start)> {
        let arguments = [
            format!("--admin-port={}", ZERO_SCALER.0),
            format!("--stats-port={ZERO_SCALER_STATS}"),
            format!("--token-file={}", self.token.display()),
            "--open-stats-port".to_owned(),
            // Without the rate limit of the API client, so that the run measures the zero-scaler
            // itself.
            format!("--kube-api-qps={UNBOUNDED}"),
        ];
        let log = self.logs.join(format!("zero-scaler-{part}.log"));
        let began = Instant::now();
        let process = start(self.program, &arguments, &self.kubeconfig, log.clone())?;
        let (last, writes) = self.until_quiet(began).await.with_context(|| log.display().to_string())?;
        let cpu = cpu_time(&process)?.since(&CpuTime::default()).total;
        Ok((process, Start { took: last.saturating_duration_since(began), writes, cpu }))
    }

    /// Waits until the work is finished; returns the time of the last write or reconcile, and the
    /// number of writes.
    async fn until_quiet(&mut self, began: Instant) -> Result<(Instant, usize)> {
        let (mut last, mut writes, mut reconciles) = (began, 0, 0);
        loop {
            sleep(POLL_INTERVAL).await;
            let (now, written) = (Instant::now(), self.writes().len());
            let reconciled = if ZERO_SCALER.is_ready().await { ZERO_SCALER.reconciles().await? } else { 0 };
            if written > 0 || reconciled != reconciles || reconciled == 0 {
                last = now;
            }
            (writes, reconciles) = (writes + written, reconciled);
            if last.elapsed() > QUIET {
                return Ok((last, writes));
            }
            if began.elapsed() > DEADLINE {
                bail!("the zero-scaler does not finish its work: {reconciles} reconciles, {writes} writes");
            }
        }
    }

    async fn idle(&mut self, process: &Process) -> Result<Idle> {
        let (cpu, reconciles, began) = (cpu_time(process)?, ZERO_SCALER.reconciles().await?, Instant::now());
        sleep(IDLE).await;
        let seconds = began.elapsed().as_secs_f64();
        let reconciled = ZERO_SCALER.reconciles().await?.saturating_sub(reconciles);
        let used = cpu_time(process)?.since(&cpu).total;
        Ok(Idle {
            cpu: used.as_secs_f64() / seconds,
            reconciles: reconciled as f64 / seconds,
            writes: self.writes().len(),
        })
    }

    async fn change(&mut self, world: &World) -> Result<Change> {
        let before = ZERO_SCALER.reconciles().await?;
        world.change_one(&self.api);
        let (_, writes) = self.until_quiet(Instant::now()).await?;
        Ok(Change { reconciles: ZERO_SCALER.reconciles().await?.saturating_sub(before), writes })
    }

    /// The writes since the last call, other than to Leases, which are renewed all the time.
    fn writes(&mut self) -> Vec<String> {
        let requests = self.api.requests_since(self.counted);
        self.counted += requests.len();
        let written = |request: &String| !request.starts_with("GET ") && !request.contains("/leases");
        requests.into_iter().filter(written).collect()
    }
}
