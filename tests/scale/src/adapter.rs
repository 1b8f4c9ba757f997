//! Adapter: the metrics-adapter as a process, from the real binary.

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use bench_proxies::cpu_time::CpuTime;
use bench_proxies::memory;
use bench_proxies::process::{Process, Program};
use tokio::time::Instant;

use crate::callers::get;
use crate::counts::Counts;

/// Longest wait for it to know all objects.
const START: Duration = Duration::from_secs(120);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How long the cluster goes on to send somebody there who is asked to end.
const STILL_ASKED: Duration = Duration::from_secs(1);
/// And who has died: a kubelet looks each second, and what it says has to reach every node.
const UNNOTICED: Duration = Duration::from_secs(3);

/// How to start one.
pub(crate) struct Setup<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) kubeconfig: &'a Path,
    /// Where pods answer.
    pub(crate) pod_port: u16,
    /// For its log.
    pub(crate) directory: &'a Path,
    /// Of its pod; another one for each.
    pub(crate) name: String,
    pub(crate) shutdown_delay: Duration,
}

/// A running adapter; it ends when dropped.
pub(crate) struct Adapter {
    process: Process,
    /// Of the metrics API.
    pub(crate) api: SocketAddr,
    /// Of pushes and decisions.
    pub(crate) stats: SocketAddr,
    admin: SocketAddr,
    /// From when on nobody is sent there.
    left_out: Cell<Option<Instant>>,
}

// === impl Adapter ===

impl Adapter {
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self> {
        let [api, stats, admin] = free_ports()?;
        let token = setup.directory.join("token");
        std::fs::write(&token, "of nobody")?;
        let arguments = [
            format!("--api-port={}", api.port()),
            format!("--stats-port={}", stats.port()),
            format!("--admin-port={}", admin.port()),
            format!("--pod-stats-port={}", setup.pod_port),
            format!("--pod-name={}", setup.name),
            format!("--token-file={}", token.display()),
            format!("--shutdown-delay={}s", setup.shutdown_delay.as_secs()),
            "--open-stats-port".to_owned(),
        ];
        let program = Program {
            path: setup.binary.to_owned(),
            arguments: arguments.map(Into::into).into(),
            environment: vec![("KUBECONFIG", setup.kubeconfig.into())],
            log: setup.directory.join(format!("{}.log", setup.name)),
        };
        Ok(Self { process: Process::start(program)?, api, stats, admin, left_out: Cell::new(None) })
    }

    /// Asks it to end.
    pub(crate) fn terminate(&self) {
        self.process.terminate();
        self.left_out.set(Some(Instant::now() + STILL_ASKED));
    }

    /// Ends it on the spot.
    pub(crate) fn kill(&self) {
        self.process.kill();
        self.left_out.set(Some(Instant::now() + UNNOTICED));
    }

    /// Whether it ends or has ended, and everybody knows.
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out.get().is_some_and(|since| since <= Instant::now())
    }

    /// Waits until it knows all that it waits for; how long that took.
    pub(crate) async fn ready(&self) -> Result<Duration> {
        let start = Instant::now();
        loop {
            if get(self.admin, "/ready").await.is_ok_and(|(status, _)| status.is_success()) {
                return Ok(start.elapsed());
            }
            if start.elapsed() > START {
                bail!("not ready after {START:?}: {}", self.process.output());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// What it has counted so far.
    pub(crate) async fn counts(&self) -> Result<Counts> {
        Ok(Counts::parse(&get(self.admin, "/metrics").await?.1))
    }

    pub(crate) fn cpu_time(&self) -> Result<CpuTime> {
        CpuTime::of(&[self.process.id()])
    }

    /// In bytes.
    pub(crate) fn resident(&self) -> Result<u64> {
        memory::resident(&[self.process.id()])
    }
}

/// Ports that nobody has now.
fn free_ports() -> Result<[SocketAddr; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners = [bind()?, bind()?, bind()?];
    let [a, b, c] = listeners.each_ref().map(TcpListener::local_addr);
    Ok([a?, b?, c?])
}
