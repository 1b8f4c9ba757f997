//! Wiring of the sidecar: sockets are bound first, so that a bad port fails at start. Then the
//! tasks run until a drain has ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use autoscaler::Protocol;
use autoscaler::routing::breaker::Breaker;
use component_base::server::{ConnectionError, ConnectionSlot, ServerLimits};
use component_base::{clock, listener};
use http::Request;
use hyper::body::Incoming;
use prometheus::Registry;
use proxy::health_checks::HealthChecks;
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::memory::{descriptors, limit};
use proxy::server::{self, ServerOptions};
use proxy::timeouts::request_timer::RequestTimers;
use proxy::workers::Workers;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin_endpoint::AdminEndpoint;
use crate::app_connection::PodAddresses;
use crate::args::Args;
use crate::memory::ClientMemory;
use crate::readiness::app_probe::AppProbe;
use crate::readiness::app_readiness::AppReadiness;
use crate::readiness::availability::Availability;
use crate::readiness::drain::Drain;
use crate::readiness::drain_waits::DrainWaits;
use crate::readiness::pod_identity::PodIdentity;
use crate::readiness::readiness_probe::ReadinessProbe;
use crate::requests::app_connections::AppConnections;
use crate::requests::client_connection::ClientConnection;
use crate::requests::handler::Handler;
use crate::requests::uncounted_requests::UncountedRequests;
use crate::stats::metrics::{self, MemoryMetrics, Metrics, TcpMetrics};
use crate::stats::request_counter::RequestCounter;
use crate::stats::returning_clients::ReturningClients;
use crate::stats::stats_endpoint::StatsEndpoint;
use crate::stats::uncounted_places::UncountedPlaces;
use crate::tcp::tcp_proxy::{TcpProxy, TcpProxyParts};

/// Time for open connections to close after the drain, when no request is left.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// A sidecar with its sockets bound.
#[derive(Debug)]
pub struct App {
    args: Args,
    traffic: TcpListener,
    stats: TcpListener,
    /// UDP socket with the port number of `stats`; `None` if the port is taken.
    datagrams: Option<UdpSocket>,
    admin: TcpListener,
}

/// Addresses of a sidecar's ports; tests bind port 0.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The pod's traffic.
    pub traffic: SocketAddr,
    /// `/stat` and `/metrics`.
    pub stats: SocketAddr,
    /// `/ready`, `/app-ready`, `/start-drain` and `/wait-for-drain`.
    pub admin: SocketAddr,
}

/// Parts that the tasks run.
struct Components {
    app: AppReadiness,
    traffic: TrafficHandler,
    stats: StatsEndpoint,
    admin: AdminEndpoint,
}

/// Parts that admit and count requests or connections.
struct Admission {
    counter: Arc<RequestCounter>,
    breaker: Breaker,
    availability: Availability,
    uncounted: Arc<UncountedPlaces>,
    memory: Arc<ClientMemory>,
}

/// Serves the connections of the traffic port.
enum TrafficHandler {
    Http(Admission),
    Tcp(TcpProxy),
}

// === impl App ===

impl App {
    /// Binds the sockets.
    ///
    /// # Errors
    /// When an address is taken or does not belong to this host.
    pub async fn bind(args: Args) -> anyhow::Result<Self> {
        let stats = listener::bind(args.stats_listen)?;
        Ok(Self {
            traffic: listener::bind(args.listen)?,
            datagrams: bind_datagrams(stats.local_addr()?),
            stats,
            admin: listener::bind(args.admin_listen)?,
            args,
        })
    }

    /// Addresses of the bound sockets.
    ///
    /// # Errors
    /// When the kernel does not return an address.
    pub fn addresses(&self) -> std::io::Result<Addresses> {
        Ok(Addresses {
            traffic: self.traffic.local_addr()?,
            stats: self.stats.local_addr()?,
            admin: self.admin.local_addr()?,
        })
    }

    /// Serves until `stop`, then drains.
    ///
    /// # Errors
    /// When the arguments are inconsistent, or a task ends unexpectedly.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let pod = PodAddresses::find(self.args.protocol);
        self.check_app_address(pod)?;
        let Self { args, traffic, stats, datagrams, admin } = self;
        tracing::info!(version = env!("CARGO_PKG_VERSION"), ?args, "queue-proxy started");
        let (close_traffic, close) = (CancellationToken::new(), CancellationToken::new());
        let components = build(&args, pod, &close_traffic)?;
        let drain = components.admin.drain.clone();
        let options = ServerOptions {
            header_read_timeout: args.header_timeout,
            idle_timeout: args.connection_idle_timeout,
            max_connections: args.max_connections,
            drain_timeout: CLOSE_TIMEOUT,
            ..ServerOptions::default()
        };
        let stats_limits = ServerLimits { drain_timeout: CLOSE_TIMEOUT, ..ServerLimits::default() };
        let mut admin_limits = stats_limits;

        let mut tasks = JoinSet::new();
        match components.traffic {
            TrafficHandler::Http(admission) => {
                let workers = Workers::start(handlers(&args, pod, &admission))?;
                tasks.spawn(serve_http(workers, traffic, admission.memory, options, close_traffic.clone()));
            }
            TrafficHandler::Tcp(proxy) => {
                // On the admin port, tunnels wait for a slot, and all tunnels of an activator come
                // from one address.
                let bounds = &mut admin_limits.connections;
                bounds.per_peer = bounds.per_peer.max(args.max_connections);
                bounds.total = bounds.total.saturating_add(args.max_connections);
                let workers = Workers::start(vec![(); args.workers()])?;
                tasks.spawn(proxy.serve(workers, traffic, options));
            }
        }
        tasks.spawn(serve_stats(stats, datagrams, Arc::new(components.stats), stats_limits, close.clone()));
        tasks.spawn(serve_admin(admin, Arc::new(components.admin), admin_limits, close.clone()));
        tasks.spawn({
            let drain = drain.clone();
            async move {
                // Concurrently, because a pod may be stopped before its app has started.
                tokio::join!(components.app.watch_starts(), drain.supervise(components.app.app_probe()));
            }
        });

        tokio::select! {
            () = stop.cancelled() => {}
            ended = tasks.join_next() => anyhow::bail!("a task ended unexpectedly: {ended:?}"),
        }
        drain.begin_final();
        drain.done().await;
        close_traffic.cancel();
        close.cancel();
        tokio::time::timeout(2 * CLOSE_TIMEOUT, async {
            while tasks.len() > 1 && tasks.join_next().await.is_some() {}
        })
        .await
        .context("connections did not close in time")
    }

    /// Checks that the app's address is not one of the sidecar's, to which each request would be
    /// forwarded without end.
    fn check_app_address(&self, pod: PodAddresses) -> anyhow::Result<()> {
        let (app, own) = (self.args.app_address(), self.addresses()?);
        let is_own = |own: SocketAddr| {
            let own_ip = own.ip().to_canonical();
            let same_ip = app.ip() == own_ip || app.ip().is_unspecified() || own_ip.is_unspecified();
            app.port() == own.port() && same_ip && pod.contain(app)
        };
        anyhow::ensure!(
            ![own.traffic, own.stats, own.admin].into_iter().any(is_own),
            "the app's address {app} is the sidecar's own; set --app-port (annotation app-port) to the port of the app"
        );
        if !pod.has_own() {
            tracing::warn!("no route to other hosts, so the app sees all clients as loopback");
        }
        Ok(())
    }
}

fn build(args: &Args, pod: PodAddresses, stop: &CancellationToken) -> anyhow::Result<Components> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    metrics::register_build_info(&registry)?;
    let counter =
        Arc::new(RequestCounter::new(Instant::now().into_std(), clock::into_second(), metrics.clone()));
    let breaker = Breaker::new(args.limit(), args.queue_bound());
    let app = AppReadiness::new(AppProbe::new(args.app_address(), readiness_probe(args)?, pod));
    let uncounted = Arc::new(UncountedPlaces::new(args.limit()));
    let drain =
        Arc::new(Drain::new(counter.clone(), uncounted.clone(), args.drain_quiet_period, args.drain_timeout));
    let availability = Availability::new(app.clone(), drain.clone());
    let identity = PodIdentity::new(args.pod_uid.clone());
    let descriptors = descriptors::raise_limit();
    metrics::register_descriptor_limit(&registry, descriptors)?;
    let budget = args.memory_budget.unwrap_or_else(limit::default_budget);
    let budget = descriptors::bounded_budget(budget, descriptors);
    let memory = Arc::new(ClientMemory::new(budget, MemoryMetrics::register(&registry)?));
    let admission = Admission {
        counter: counter.clone(),
        breaker: breaker.clone(),
        availability: availability.clone(),
        uncounted,
        memory,
    };
    let tcp = match args.protocol {
        Protocol::Http => None,
        Protocol::Tcp => Some(tcp_proxy(args, pod, &admission, TcpMetrics::register(&registry)?, stop)),
    };
    let traffic = match &tcp {
        None => TrafficHandler::Http(admission),
        Some(proxy) => TrafficHandler::Tcp(proxy.clone()),
    };
    Ok(Components {
        app,
        traffic,
        stats: StatsEndpoint::new(args.pod.clone(), args.protocol, counter, breaker, metrics, registry),
        admin: AdminEndpoint { availability, drain, drain_waits: DrainWaits::default(), identity, tcp },
    })
}

/// One handler for each worker.
fn handlers(args: &Args, pod: PodAddresses, admission: &Admission) -> Vec<Handler> {
    let uncounted = Arc::new(UncountedRequests {
        health_checks: HealthChecks::new(&args.health_check_agents),
        no_wake: args.no_wake.clone().unwrap_or_default(),
        places: admission.uncounted.clone(),
    });
    let clients = Arc::new(ReturningClients::default());
    let handler = || Handler {
        counter: admission.counter.clone(),
        breaker: admission.breaker.clone(),
        app: AppConnections::new(args.app_address(), pod),
        availability: admission.availability.clone(),
        identity: PodIdentity::new(args.pod_uid.clone()),
        uncounted: uncounted.clone(),
        clients: clients.clone(),
        timers: RequestTimers::new(args.timeouts()),
    };
    std::iter::repeat_with(handler).take(args.workers()).collect()
}

fn tcp_proxy(
    args: &Args,
    pod: PodAddresses,
    admission: &Admission,
    metrics: TcpMetrics,
    stop: &CancellationToken,
) -> TcpProxy {
    TcpProxy::new(TcpProxyParts {
        counter: admission.counter.clone(),
        breaker: admission.breaker.clone(),
        availability: admission.availability.clone(),
        app: args.app_address(),
        pod,
        idle_timeouts: args.idle_timeouts(),
        metrics,
        memory: admission.memory.clone(),
        tunnels: Arc::new(Semaphore::new(args.max_connections.min(Semaphore::MAX_PERMITS))),
        stop: stop.clone(),
    })
}

fn readiness_probe(args: &Args) -> anyhow::Result<ReadinessProbe> {
    let app = args.app_address();
    if let Some(json) = &args.readiness_probe {
        return ReadinessProbe::from_json(json, app.ip())
            .with_context(|| format!("--readiness-probe {json}"));
    }
    let Some(path) = &args.readiness_path else { return Ok(ReadinessProbe::tcp(app)) };
    ReadinessProbe::http(app, path).with_context(|| format!("--readiness-path {path:?}"))
}

async fn serve_http(
    workers: Workers<Handler>,
    listener: TcpListener,
    memory: Arc<ClientMemory>,
    options: ServerOptions,
    stop: CancellationToken,
) {
    let admit = move |addresses: &ConnectionAddresses| ClientConnection::admit(&memory, addresses);
    let service = |handler: Arc<Handler>, connection: &ClientConnection| {
        let requests = Arc::new(connection.requests(handler));
        move |request: Request<IncomingBody>, addresses: &Arc<ConnectionAddresses>| {
            requests.serve(request, addresses)
        }
    };
    server::serve_on_workers(&workers, listener, admit, service, options, stop).await;
}

/// A failure is tolerated, because collectors fall back to HTTP.
fn bind_datagrams(address: SocketAddr) -> Option<UdpSocket> {
    match listener::bind_datagrams(address) {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(%error, "UDP port unavailable, serving stats by HTTP only");
            None
        }
    }
}

/// Serves the stats and ends their periods.
async fn serve_stats(
    listener: TcpListener,
    datagrams: Option<UdpSocket>,
    stats: Arc<StatsEndpoint>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let handler = {
        let stats = stats.clone();
        move |request: Request<Incoming>| std::future::ready(stats.handle(&request))
    };
    let answer_datagrams = async {
        match &datagrams {
            Some(socket) => stats.answer_datagrams(socket).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = component_base::server::serve(listener, handler, limits, stop) => {}
        () = stats.report_periods() => {}
        () = answer_datagrams => {}
    }
}

async fn serve_admin(
    listener: TcpListener,
    admin: Arc<AdminEndpoint>,
    limits: ServerLimits,
    stop: CancellationToken,
) {
    let open = move |stream: TcpStream, slot: Arc<ConnectionSlot>| {
        let (admin, peer) = (admin.clone(), slot.peer());
        let handler = move |request: Request<Incoming>| {
            let admin = admin.clone();
            async move { admin.handle(request, peer).await }
        };
        std::future::ready(Ok::<_, ConnectionError>((stream, handler)))
    };
    component_base::server::serve_with(listener, open, limits, stop).await;
}
