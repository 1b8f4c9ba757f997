//! The processes of a run: starts them, waits until their work is finished, counts their writes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::process::{Process, Program};
use fake_api::{FakeApi, Protocols};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::adapter;
use crate::admin::Admin;
use crate::world::{World, activator_name, pod};

/// No write and no reconcile for this long: the work is finished. Longer than the zero-scaler's
/// interval between two probes of an activator, in case one was slow.
const QUIET: Duration = Duration::from_secs(7);
/// Longest wait for the end of the work.
const DEADLINE: Duration = Duration::from_secs(300);
/// Time for a clean shutdown.
pub(crate) const TERMINATION: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// More requests a second than the zero-scaler sends.
const UNBOUNDED: u32 = 100_000;
/// Ports of the processes; activators use 20000 to 29999 first.
pub(crate) const ZERO_SCALER: Admin = Admin(19_090);
pub(crate) const ZERO_SCALER_STATS: u16 = 19_080;
const ACTIVATOR: Admin = Admin(19_091);
const ACTIVATOR_SLOTS: u16 = 19_081;

/// A process from its start until its work is finished.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) took: Duration,
    pub(crate) writes: usize,
    pub(crate) cpu: Duration,
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) workloads: usize,
    /// Whether each is in a namespace of its own, with pods without sidecars.
    pub(crate) plain: bool,
    /// Streams of a connection that the API server allows.
    pub(crate) streams: u32,
}

/// The environment that the processes of a run share.
pub(crate) struct Bench<'a> {
    pub(crate) api: FakeApi,
    pub(crate) world: World,
    program: &'a Path,
    kubeconfig: PathBuf,
    token: PathBuf,
    logs: &'a Path,
    /// Number of API requests that were counted before.
    counted: usize,
    /// Port of the API server.
    pub(crate) api_port: u16,
    _served: JoinSet<io::Result<()>>,
    pub(crate) activator: Process,
}

async fn start_activator(program: &Path, kubeconfig: &Path, token: &Path, logs: &Path) -> Result<Process> {
    let arguments = [
        format!("--admin-port={}", ACTIVATOR.0),
        format!("--slots-port={ACTIVATOR_SLOTS}"),
        "--wake-port=0".to_owned(),
        format!("--pod-name={}", pod(&activator_name(1))),
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

pub(crate) fn cpu_time(process: &Process) -> Result<CpuTime> {
    CpuTime::of(&[process.id()])
}

// === impl Bench ===

impl<'a> Bench<'a> {
    /// Serves the API and the decisions of a world, and starts an activator in it.
    pub(crate) async fn new(size: Size, program: &'a Path, activator: &Path, logs: &'a Path) -> Result<Self> {
        let api = FakeApi::default();
        let (api_listener, decisions) =
            (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let Size { workloads, plain, streams } = size;
        let decisions_port = decisions.local_addr()?.port();
        let world = World { workloads, plain, decisions: decisions_port, reports: ZERO_SCALER_STATS };
        world.create(&api);
        fs::create_dir_all(logs)?;
        let (kubeconfig, token) = (logs.join("kubeconfig"), logs.join("token"));
        let address = api_listener.local_addr()?;
        let api_port = address.port();
        fs::write(&kubeconfig, fake_api::kubeconfig(address).to_string())?;
        fs::write(&token, "token")?;
        let mut served = JoinSet::new();
        served.spawn(api.clone().serve(api_listener, Protocols::Http2 { streams }));
        served.spawn(adapter::serve(decisions, world));
        let activator = start_activator(activator, &kubeconfig, &token, logs).await?;
        Ok(Self {
            api,
            world,
            program,
            kubeconfig,
            token,
            logs,
            counted: 0,
            api_port,
            _served: served,
            activator,
        })
    }

    /// Starts the zero-scaler and waits until its work is finished.
    pub(crate) async fn start(&mut self, part: &str) -> Result<(Process, Start)> {
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
        Ok((process, Start { took: last.saturating_duration_since(began), writes: writes.len(), cpu }))
    }

    /// Waits until the work is finished; returns the time of the last write or reconcile, and the
    /// writes.
    pub(crate) async fn until_quiet(&mut self, began: Instant) -> Result<(Instant, Vec<String>)> {
        let (mut last, mut writes, mut reconciles) = (began, Vec::new(), 0);
        loop {
            sleep(POLL_INTERVAL).await;
            let (now, written) = (Instant::now(), self.writes());
            let reconciled = if ZERO_SCALER.is_ready().await { ZERO_SCALER.reconciles().await? } else { 0 };
            if !written.is_empty() || reconciled != reconciles || reconciled == 0 {
                last = now;
            }
            writes.extend(written);
            reconciles = reconciled;
            if last.elapsed() > QUIET {
                return Ok((last, writes));
            }
            if began.elapsed() > DEADLINE {
                let writes = writes.len();
                bail!("the zero-scaler does not finish its work: {reconciles} reconciles, {writes} writes");
            }
        }
    }

    /// The writes since the last call, other than to Leases, which are renewed all the time.
    pub(crate) fn writes(&mut self) -> Vec<String> {
        let requests = self.api.requests_since(self.counted);
        self.counted += requests.len();
        let written = |request: &String| !request.starts_with("GET ") && !request.contains("/leases");
        requests.into_iter().filter(written).collect()
    }
}
