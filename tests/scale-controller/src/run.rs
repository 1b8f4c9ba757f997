//! One run with so many workloads: adoption, a restart, rest, one change.

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
use crate::looks::Admin;
use crate::world::World;

/// Nothing written and nothing looked at for so long: all is as it should be. Longer than the zero-scaler waits before it asks
/// again whether an activator listens, should one have been slow.
const QUIET: Duration = Duration::from_secs(7);
/// Longest wait for that.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it rests.
const REST: Duration = Duration::from_secs(20);
/// Time to end by itself.
const TERMINATION: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// More requests a second than it could make.
const UNBOUNDED: u32 = 100_000;
/// Ports of the processes; those of activators for workloads are 20000 to 29999.
const ZERO_SCALER: Admin = Admin(19_090);
const ZERO_SCALER_STATS: u16 = 19_080;
const ACTIVATOR: Admin = Admin(19_091);
const ACTIVATOR_SLOTS: u16 = 19_081;

/// What a run took.
#[derive(Debug)]
pub(crate) struct Measured {
    /// From the users' objects alone.
    pub(crate) adoption: Start,
    /// From everything as it was left.
    pub(crate) restart: Start,
    /// Most memory of both processes, in bytes.
    pub(crate) memory: u64,
    pub(crate) rest: Rest,
    pub(crate) change: Change,
}

/// A process from its start until nothing is left to do.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) took: Duration,
    pub(crate) writes: usize,
    pub(crate) cpu: Duration,
}

/// While nothing changes.
#[derive(Debug)]
pub(crate) struct Rest {
    /// Share of one core.
    pub(crate) cpu: f64,
    /// Looks at objects in a second.
    pub(crate) looks: f64,
    pub(crate) writes: usize,
}

/// What one change causes.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) looks: u64,
    pub(crate) writes: usize,
}

/// What stays from one process to the next.
struct Bench<'a> {
    api: FakeApi,
    program: &'a Path,
    kubeconfig: PathBuf,
    token: PathBuf,
    logs: &'a Path,
    /// Requests to the API that were counted already.
    counted: usize,
}

/// Runs it all with so many workloads.
///
/// # Errors
/// When a process cannot be run, or comes to no rest.
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
    let world = World { workloads, decisions: decisions.local_addr()?.port() };
    world.make(&api);
    fs::create_dir_all(logs)?;
    let (kubeconfig, token) = (logs.join("kubeconfig"), logs.join("token"));
    fs::write(&kubeconfig, fake_api::kubeconfig(api_listener.local_addr()?).to_string())?;
    fs::write(&token, "token")?;
    served.spawn(api.clone().serve(api_listener));
    served.spawn(adapter::serve(decisions, world));
    let _activator = start_activator(activator, &kubeconfig, &token, logs).await?;
    let mut bench = Bench { api, program: zero_scaler, kubeconfig, token, logs, counted: 0 };

    let (process, adoption) = bench.start("adoption").await?;
    let adopted = most_memory(&process)?;
    process.finish(TERMINATION)?;
    bench.writes();
    let (process, restart) = bench.start("restart").await?;
    let rest = bench.rest(&process).await?;
    let change = bench.change(&world).await?;
    let memory = most_memory(&process)?.max(adopted);
    process.finish(TERMINATION)?;
    Ok(Measured { adoption, restart, memory, rest, change })
}

async fn start_activator(program: &Path, kubeconfig: &Path, token: &Path, logs: &Path) -> Result<Process> {
    let arguments = [
        format!("--admin-port={}", ACTIVATOR.0),
        format!("--slots-port={ACTIVATOR_SLOTS}"),
        format!("--token-file={}", token.display()),
    ];
    let process = start(program, &arguments, kubeconfig, logs.join("activator.log"))?;
    let deadline = Instant::now() + PATIENCE;
    while !ACTIVATOR.is_ready().await {
        if Instant::now() > deadline {
            bail!("the activator does not become ready; see {}", logs.display());
        }
        sleep(LOOK_AGAIN).await;
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
fn most_memory(process: &Process) -> Result<u64> {
    memory::most_resident(&process.id().to_string())
}

// === impl Bench ===

impl Bench<'_> {
    /// Starts the zero-scaler, and waits until nothing is left for it to do.
    async fn start(&mut self, part: &str) -> Result<(Process, Start)> {
        let arguments = [
            "--listen=127.0.0.1".to_owned(),
            format!("--admin-port={}", ZERO_SCALER.0),
            format!("--stats-port={ZERO_SCALER_STATS}"),
            format!("--token-file={}", self.token.display()),
            "--open-stats-port".to_owned(),
            // What it can do is to be seen, and not what it is allowed.
            format!("--kube-api-qps={UNBOUNDED}"),
            format!("--kube-api-burst={UNBOUNDED}"),
        ];
        let log = self.logs.join(format!("zero-scaler-{part}.log"));
        let began = Instant::now();
        let process = start(self.program, &arguments, &self.kubeconfig, log.clone())?;
        let (last, writes) = self.until_quiet(began).await.with_context(|| log.display().to_string())?;
        let cpu = cpu_time(&process)?.since(&CpuTime::default()).total;
        Ok((process, Start { took: last.saturating_duration_since(began), writes, cpu }))
    }

    /// The moment of the last look or write, and how many writes there were.
    async fn until_quiet(&mut self, began: Instant) -> Result<(Instant, usize)> {
        let (mut last, mut writes, mut looks) = (began, 0, 0);
        loop {
            sleep(LOOK_AGAIN).await;
            let (now, written) = (Instant::now(), self.writes().len());
            let looked = if ZERO_SCALER.is_ready().await { ZERO_SCALER.looks().await? } else { 0 };
            if written > 0 || looked != looks || looked == 0 {
                last = now;
            }
            (writes, looks) = (writes + written, looked);
            if last.elapsed() > QUIET {
                return Ok((last, writes));
            }
            if began.elapsed() > PATIENCE {
                bail!("the zero-scaler comes to no rest: {looks} looks, {writes} writes");
            }
        }
    }

    async fn rest(&mut self, process: &Process) -> Result<Rest> {
        let (cpu, looks, began) = (cpu_time(process)?, ZERO_SCALER.looks().await?, Instant::now());
        sleep(REST).await;
        let seconds = began.elapsed().as_secs_f64();
        let looked = ZERO_SCALER.looks().await?.saturating_sub(looks);
        let used = cpu_time(process)?.since(&cpu).total;
        Ok(Rest {
            cpu: used.as_secs_f64() / seconds,
            looks: looked as f64 / seconds,
            writes: self.writes().len(),
        })
    }

    async fn change(&mut self, world: &World) -> Result<Change> {
        let before = ZERO_SCALER.looks().await?;
        world.change_one(&self.api);
        let (_, writes) = self.until_quiet(Instant::now()).await?;
        Ok(Change { looks: ZERO_SCALER.looks().await?.saturating_sub(before), writes })
    }

    /// The writes to objects of workloads since this was last asked. Leases are renewed whatever happens.
    fn writes(&mut self) -> Vec<String> {
        let requests = self.api.requests_since(self.counted);
        self.counted += requests.len();
        let written = |request: &String| !request.starts_with("GET ") && !request.contains("/leases");
        requests.into_iter().filter(written).collect()
    }
}
