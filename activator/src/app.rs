//! Wiring: what is spawned, with what, and in which order it ends.
//!
//! ```text
//! SIGTERM ─► not ready, "Connection: close" ─► grace: still accepting ─► listeners close, requests end ─► exit
//! ```
//!
//! Held requests are served until the end: watches, probes and pushes run as long as the last of them.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use autoscaler::contract::{SLOTS_PORT_NAME, STATS_AUDIENCE, STATS_PORT_NAME};
use http::Method;
use prometheus::Registry;
use proxy::health_checks::HealthChecks;
use proxy::server::ServerOptions;
use proxy::workers::Workers;
use runtime::auth::KubernetesReviewer;
use runtime::auth::ProjectedToken;
use runtime::auth::TokenGuard;
use runtime::kubernetes::ApiResources;
use runtime::readiness::Readiness;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::args::{Args, Limits};
use crate::concurrency_reporter::ConcurrencyReporter;
use crate::expected_probes::ExpectedProbes;
use crate::forward::Forwarder;
use crate::guard::{Guard, Question};
use crate::held_places::{self, HeldPlaces};
use crate::listeners::Listeners;
use crate::metrics::Metrics;
use crate::slot_exchange::{self, Position};
use crate::stat_reporter::{Addresses, StatReporter};
use crate::throttler::{Shared, Throttler};
use crate::workloads::{Change, file, kubernetes};

/// Changes that may wait to be applied; the watches wait beyond that.
const CHANGES: usize = 1024;

/// What the activator learns from outside: by watches in a cluster, else from a file.
#[derive(Debug)]
pub struct Sources {
    /// Workloads and pods.
    pub changes: mpsc::Receiver<Change>,
    /// Where the metrics-adapters take reports.
    pub adapters: Addresses,
    /// Where the zero-scalers take reports.
    pub zero_scalers: Addresses,
    /// By which the guard wakes; without it there is none.
    pub guard: Option<ApiResources>,
    /// Where the other activators are; without it this one fills pods as if it were alone.
    pub position: Option<Position>,
}

/// The activator without its sources.
#[derive(Debug)]
pub struct App {
    limits: Limits,
    shared: Arc<Shared>,
    workers: Workers<Forwarder>,
    outlet: StatReporter,
}

/// Runs an activator until it is told to stop.
///
/// # Errors
/// When it cannot start, or one of its parts ended.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = runtime::shutdown::on_signal().context("signals")?;
    let registry = Registry::new();
    runtime::metrics::register_build_info(&registry, "activator", env!("CARGO_PKG_VERSION"))?;
    let app = App::new(args.pod_name.clone(), args.limits, &args.health_check_agents, &registry)?
        .with_token(ProjectedToken::at(&args.token_file));
    let readiness = Readiness::default();
    let admin = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.admin_port))).await;
    let admin = admin.with_context(|| format!("admin port {}", args.admin_port))?;
    let admin_stop = CancellationToken::new();
    let _admin_stops = admin_stop.clone().drop_guard();
    let probes = app.expected_probes();
    let more = move |method: &Method, path: &str| probes.answer(method, path);
    tokio::spawn(runtime::admin::serve_with(more, admin, registry, readiness.clone(), admin_stop));
    let sources = match &args.workloads {
        Some(path) => file::follow(path, readiness.latch("workloads file"))
            .with_context(|| format!("workloads in {}", path.display()))?,
        None => {
            let client = runtime::kubernetes::client("activator", env!("CARGO_PKG_VERSION")).await?;
            watch_cluster(client, &args, &readiness).await?
        }
    };
    tracing::info!(?args, "activator");
    app.run(sources, &readiness, stop).await;
    Ok(())
}

async fn watch_cluster(client: kube::Client, args: &Args, readiness: &Readiness) -> anyhow::Result<Sources> {
    let (sender, changes) = mpsc::channel(CHANGES);
    let workloads = readiness.latch("serverlessservices watch");
    let pods = readiness.latch("pods watch");
    let memory = args.state_directory.as_deref();
    tokio::spawn(kubernetes::follow_workloads(client.clone(), memory, sender.clone(), workloads));
    tokio::spawn(kubernetes::follow_pods(client.clone(), memory, sender, pods));
    let peers = |service, port| {
        let (addresses, follow) =
            runtime::kubernetes::watch_peers(client.clone(), &args.system_namespace, service, port);
        tokio::spawn(follow);
        addresses
    };
    let position = match args.pod_ip {
        Some(own) => {
            let address = SocketAddr::new(own, args.slots_port);
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("slots port {address}"))?;
            Some(Position {
                own,
                listener,
                guard: token_guard(client.clone(), args),
                token: ProjectedToken::at(&args.token_file),
                activators: peers("activator", SLOTS_PORT_NAME),
            })
        }
        None => None,
    };
    Ok(Sources {
        changes,
        adapters: peers("metrics-adapter", STATS_PORT_NAME),
        zero_scalers: peers("zero-scaler", STATS_PORT_NAME),
        guard: Some(ApiResources::new(client.clone())),
        position,
    })
}

fn token_guard(client: kube::Client, args: &Args) -> TokenGuard {
    if args.open_slots_port {
        return TokenGuard::allow_all();
    }
    TokenGuard::new(Arc::new(KubernetesReviewer::new(client)), &args.system_namespace, STATS_AUDIENCE)
}

// === impl App ===

impl App {
    /// An activator that reports as `pod_name`, and knows health checks by how their user agents begin.
    ///
    /// # Errors
    /// When its metrics are in the registry already, or the system gives it no threads.
    pub fn new(
        pod_name: String,
        limits: Limits,
        health_check_agents: &[String],
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::register(registry).context("metrics")?;
        let outlet = StatReporter::new(metrics.push.clone());
        let shared = Arc::new(Shared {
            prober: Forwarder::default(),
            reporter: ConcurrencyReporter::new(pod_name, outlet.clone()),
            metrics,
            held: HeldPlaces::new(limits.total_queue_depth, limits.total_queue_bytes),
            health_checks: HealthChecks::new(health_check_agents),
            limits,
            idle_timeouts: limits.idle_timeouts(),
            expected_probes: ExpectedProbes::default(),
            draining: AtomicBool::new(false),
        });
        let workers = Workers::start((0..limits.workers()).map(Forwarder::of_worker)).context("threads")?;
        Ok(Self { limits, shared, workers, outlet })
    }

    /// Receivers of reports know us by this token.
    #[must_use]
    pub fn with_token(mut self, token: ProjectedToken) -> Self {
        self.outlet = self.outlet.with_token(token);
        self
    }

    /// What is answered for its ports that are not HTTP's, beside the rest of the admin port.
    pub fn expected_probes(&self) -> ExpectedProbes {
        self.shared.expected_probes.clone()
    }

    /// Works until `stop`, then drains.
    pub async fn run(self, sources: Sources, readiness: &Readiness, stop: CancellationToken) {
        let (close, requests) = (CancellationToken::new(), TaskTracker::new());
        let options = ServerOptions {
            header_read_timeout: self.limits.header_timeout,
            drain_timeout: self.limits.drain_timeout,
            http2_window: held_places::BODY,
            ..ServerOptions::default()
        };
        let listeners = Listeners::new(options, self.workers.clone(), close.clone(), requests.clone());
        let throttler = Throttler::new(self.shared.clone(), listeners);
        let (others, exchange) =
            slot_exchange::exchange(sources.position, self.shared.metrics.exchange.clone());
        let (questions, asked) = mpsc::channel(1);
        let guard = self.guard(sources.guard, sources.zero_scalers.clone(), questions);
        let work = async {
            tokio::join!(
                throttler.run(sources.changes, others, asked),
                guard,
                exchange,
                self.shared.reporter.run(),
                self.outlet.run(sources.adapters, sources.zero_scalers),
            )
        };
        let end = async {
            stop.cancelled().await;
            self.drain(readiness, &close, &requests).await;
        };
        tokio::select! {
            _ = work => tracing::error!("a part that never ends has ended"),
            () = end => {}
        }
    }

    async fn guard(
        &self,
        targets: Option<ApiResources>,
        zero_scalers: Addresses,
        questions: mpsc::Sender<Question>,
    ) {
        let Some(targets) = targets else { return };
        let guard = Guard::new(targets, self.limits.guard_after, self.shared.metrics.guard.clone());
        guard.run(|| self.outlet.reaches_any(&zero_scalers.borrow()), questions).await;
    }

    async fn drain(&self, readiness: &Readiness, close: &CancellationToken, requests: &TaskTracker) {
        readiness.drain();
        self.shared.draining.store(true, Ordering::Relaxed);
        tokio::time::sleep(self.limits.drain_grace).await;
        close.cancel();
        requests.close();
        // Each listener bounds its own end.
        requests.wait().await;
        tracing::info!("drained");
    }
}
