//! Adapter: a metrics-adapter process of the real binary.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::memory;
use bench_proxies::process::{Process, Program};
use tokio::time::Instant;

use crate::http_get::get;
use crate::metrics_sample::MetricsSample;

/// Timeout of readiness.
const READY_TIMEOUT: Duration = Duration::from_secs(120);
/// Interval between readiness probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// How long a terminating replica still gets requests in a cluster.
const TERMINATION_DELAY: Duration = Duration::from_secs(1);
/// How long a dead replica still gets requests: the kubelet probes each second, and the new
/// endpoints have to reach every node.
const CRASH_DELAY: Duration = Duration::from_secs(3);

/// Configuration of an adapter process.
pub(crate) struct AdapterConfig<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    /// Directory of its log.
    pub(crate) directory: &'a Path,
    /// Name of its pod, unique per process.
    pub(crate) name: String,
    pub(crate) shutdown_delay: Duration,
}

/// A running adapter, killed when dropped.
pub(crate) struct Adapter {
    process: Process,
    /// Address of the metrics API.
    pub(crate) api: SocketAddr,
    /// Address of the stats port.
    pub(crate) stats: SocketAddr,
    admin: SocketAddr,
    /// From when on it gets no more requests.
    removed_at: Cell<Option<Instant>>,
}

// === impl Adapter ===

impl Adapter {
    pub(crate) fn start(config: &AdapterConfig<'_>) -> Result<Self> {
        let [api, stats, admin] = free_ports()?;
        let token = config.directory.join("token");
        std::fs::write(&token, "unused")?;
        let arguments = [
            format!("--api-port={}", api.port()),
            format!("--stats-port={}", stats.port()),
            format!("--admin-port={}", admin.port()),
            format!("--pod-name={}", config.name),
            format!("--token-file={}", token.display()),
            format!("--shutdown-delay={}s", config.shutdown_delay.as_secs()),
            "--open-stats-port".to_owned(),
        ];
        let program = Program {
            path: config.binary.to_owned(),
            arguments: arguments.map(Into::into).into(),
            environment: vec![("KUBECONFIG", config.kubeconfig.into())],
            log: config.directory.join(format!("{}.log", config.name)),
        };
        Ok(Self { process: Process::start(program)?, api, stats, admin, removed_at: Cell::new(None) })
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.process.terminate();
        self.removed_at.set(Some(Instant::now() + TERMINATION_DELAY));
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(&self) {
        self.process.kill();
        self.removed_at.set(Some(Instant::now() + CRASH_DELAY));
    }

    /// Whether it ends or has ended, and its endpoint is removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed_at.get().is_some_and(|since| since <= Instant::now())
    }

    /// Waits until it is ready, and returns the time that took.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        let start = Instant::now();
        loop {
            if get(self.admin, "/ready").await.is_ok_and(|(status, _)| status.is_success()) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > READY_TIMEOUT {
                bail!("not ready after {READY_TIMEOUT:?}: {}", self.process.output());
            }
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }

    /// Its current metrics.
    pub(crate) async fn metrics(&self) -> Result<MetricsSample> {
        Ok(MetricsSample::parse(&get(self.admin, "/metrics").await?.1))
    }

    pub(crate) fn cpu_time(&self) -> Result<CpuTime> {
        CpuTime::of(&[self.process.id()])
    }

    /// Resident memory, in bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        memory::resident(&[self.process.id()])
    }
}

/// Three unused ports.
fn free_ports() -> Result<[SocketAddr; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [bind()?, bind()?, bind()?];
    let [a, b, c] = listeners.each_ref().map(TcpListener::local_addr);
    Ok([a?, b?, c?])
}
