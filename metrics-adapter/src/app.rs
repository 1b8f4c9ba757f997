//! Wiring: binds the sockets, starts the tasks and servers, and stops them in order.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::METRICS_ADAPTER_ACCOUNT;
use component_base::kubernetes::lease::{Leadership, Lease};
use component_base::listener::bind_port;
use component_base::readiness::Readiness;
use component_base::{admin, kubernetes, shutdown};
use kube::Client;
use prometheus::Registry;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::COMPONENT;
use crate::app::context::Context;
use crate::args::Args;
use crate::external_metrics::leader_forwarder;
use crate::metrics::Metrics;

mod certificate;
mod context;
mod servers;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What runs until the end of the process.
struct Process {
    /// The signal to stop. An error of a task cancels it as well.
    signal: CancellationToken,
    readiness: Readiness,
    leadership: Leadership,
    tasks: JoinSet<()>,
    servers: JoinSet<()>,
    /// Stops the servers.
    stop: CancellationToken,
    admin: JoinHandle<()>,
    /// Stops the admin port and the thread of the collector.
    end: CancellationToken,
}

/// Runs the process until a signal.
///
/// # Errors
/// When it cannot start, or a task or server ends unexpectedly.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tracing::info!(version = VERSION, ?args, "metrics-adapter started");
    let signal = shutdown::on_signal()?;
    let [api, stats] = [bind_port(args.api_port)?, bind_port(args.stats_port)?];
    let admin = bind_port(args.admin_port)?;
    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    component_base::metrics::register_build_info(&registry, COMPONENT, VERSION)?;
    let (readiness, stop, end) = (Readiness::default(), CancellationToken::new(), CancellationToken::new());
    // Held until all watches are registered, so that the process is not ready without them.
    let starting = readiness.latch("the Kubernetes client");
    let admin = tokio::spawn(admin::serve(admin, registry.clone(), readiness.clone(), end.clone()));
    kubernetes::ensure_own_account(&args.system_namespace, METRICS_ADAPTER_ACCOUNT)?;
    let client = kubernetes::client(COMPONENT, VERSION).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(kubernetes::watch_revision(client.clone(), &args.system_namespace));
    let leadership = elect(&args, &client, &registry, &signal, &mut tasks)?;
    let (context, inputs) = Context::new(client, metrics, readiness.clone(), leadership.clone());
    context.start(&args.system_namespace, inputs, &end, &mut tasks)?;
    let servers = servers::start(&args, &context, api, stats, &stop, &mut tasks)?;
    drop(starting);
    let process = Process { signal, readiness, leadership, tasks, servers, stop, admin, end };
    process.run(args.shutdown_delay).await
}

/// Starts the election. The lease is released at the signal: the next leader decides while this
/// replica still forwards queries.
fn elect(
    args: &Args,
    client: &Client,
    registry: &Registry,
    signal: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<Leadership> {
    let stats = SocketAddr::new(args.pod_ip, args.stats_port);
    let identity = leader_forwarder::identity(&args.pod_name, component_base::clock::unix_millis(), stats);
    let lease = Lease::new(client.clone(), &args.system_namespace, COMPONENT, &identity);
    let (leadership, election) = lease.elect(signal.clone());
    leadership.register(registry, COMPONENT)?;
    tasks.spawn(election);
    Ok(leadership)
}

// === impl Process ===

impl Process {
    async fn run(mut self, shutdown_delay: Duration) -> anyhow::Result<()> {
        let ended = tokio::select! {
            () = self.signal.cancelled() => Ok(()),
            Some(task) = self.tasks.join_next() => Err(anyhow::anyhow!("a task ended unexpectedly: {task:?}")),
            Some(server) = self.servers.join_next() => {
                Err(anyhow::anyhow!("a server ended unexpectedly: {server:?}"))
            }
        };
        self.readiness.drain();
        self.signal.cancel();
        if ended.is_ok() {
            tokio::time::sleep(shutdown_delay).await;
        }
        self.stop.cancel();
        while self.servers.join_next().await.is_some() {}
        self.leadership.released().await;
        self.tasks.shutdown().await;
        self.end.cancel();
        self.admin.await?;
        ended
    }
}
