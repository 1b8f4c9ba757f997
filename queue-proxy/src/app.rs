//! Wiring: sockets are bound first, so that a bad port fails at start; then tasks run until a drain has ended.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use autoscaler::Protocol;
use autoscaler::breaker::Breaker;
use http::Request;
use hyper::body::Incoming;
use prometheus::Registry;
use proxy::health_checks::HealthChecks;
use proxy::listener::ConnectionAddresses;
use proxy::server::{self, ServerOptions};
use proxy::tcp::enable_keepalive;
use proxy::workers::Workers;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admin::Admin;
use crate::app_readiness::{AppProbe, AppReadiness};
use crate::args::Args;
use crate::availability::Availability;
use crate::caller_body::CallerBody;
use crate::drain::Drain;
use crate::handler::Handler;
use crate::metrics::{Metrics, TcpMetrics};
use crate::readiness_probe::ReadinessProbe;
use crate::request_counter::RequestCounter;
use crate::stats_endpoint::StatsEndpoint;
use crate::tcp_proxy::{self, TcpProxy};
use crate::timeouts::Stopwatches;
use crate::upstream::Upstream;

/// Time for open connections to close after the drain, which has waited for requests already.
const CLOSE: Duration = Duration::from_secs(1);
/// Bound of the stats and admin ports: collectors and one kubelet.
const FEW_CONNECTIONS: usize = 64;

/// A sidecar with its sockets bound.
#[derive(Debug)]
pub struct App {
    args: Args,
    traffic: TcpListener,
    stats: TcpListener,
    /// The same port of UDP.
    datagrams: Option<UdpSocket>,
    admin: TcpListener,
}

/// Where a sidecar listens; tests bind port 0.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The pod's traffic.
    pub traffic: SocketAddr,
    /// `/stat` and `/metrics`.
    pub stats: SocketAddr,
    /// `/ready` and `/wait-for-drain`.
    pub admin: SocketAddr,
}

/// What the tasks share.
struct Parts {
    app: AppReadiness,
    server: Server,
    stats: StatsEndpoint,
    admin: Admin,
}

/// What limits and counts, whatever is spoken.
struct Load {
    counter: Arc<RequestCounter>,
    breaker: Breaker,
    availability: Availability,
}

/// What takes the traffic's connections.
enum Server {
    Http(Load),
    Tcp(TcpProxy),
}

// === impl App ===

impl App {
    /// Binds the sockets.
    ///
    /// # Errors
    /// When an address is taken or not ours.
    pub async fn bind(args: Args) -> anyhow::Result<Self> {
        let stats = listen(args.stats_listen).await?;
        Ok(Self {
            traffic: listen(args.listen).await?,
            datagrams: datagrams(stats.local_addr()?).await,
            stats,
            admin: listen(args.admin_listen).await?,
            args,
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When a socket does not know its address.
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
    /// When the arguments contradict themselves or a task ends unexpectedly.
    pub async fn run(self, stop: CancellationToken) -> anyhow::Result<()> {
        let Self { args, traffic, stats, datagrams, admin } = self;
        tracing::info!(?args, "queue-proxy {}", env!("CARGO_PKG_VERSION"));
        let (close_traffic, close) = (CancellationToken::new(), CancellationToken::new());
        let parts = build(&args, &close_traffic)?;
        let drain = parts.admin.drain.clone();
        let bounds = ServerOptions {
            header_read_timeout: args.header_timeout,
            max_connections: args.max_connections,
            drain_timeout: CLOSE,
            ..ServerOptions::default()
        };
        let few = ServerOptions { max_connections: FEW_CONNECTIONS, ..bounds };
        let mut admin_bounds = few;

        let mut tasks = JoinSet::new();
        match parts.server {
            Server::Http(load) => {
                let workers = Workers::start(handlers(&args, &load))?;
                tasks.spawn(serve_traffic(workers, traffic, bounds, close_traffic.clone()));
            }
            Server::Tcp(proxy) => {
                enable_keepalive(&traffic)?;
                enable_keepalive(&admin)?;
                // Here they wait for a slot, and nobody may take the kubelet's place for that.
                admin_bounds.max_connections = args.max_connections.saturating_add(FEW_CONNECTIONS);
                let workers = Workers::start(vec![(); args.workers()])?;
                tasks.spawn(proxy.serve(workers, traffic, bounds));
            }
        }
        tasks.spawn(serve_stats(stats, datagrams, Arc::new(parts.stats), few, close.clone()));
        tasks.spawn(serve_admin(admin, Arc::new(parts.admin), admin_bounds, close.clone()));
        tasks.spawn({
            let drain = drain.clone();
            async move {
                // Together: a pod may be told to stop before its app has ever started.
                tokio::join!(parts.app.watch_starts(), drain.supervise(parts.app.probe()));
            }
        });

        tokio::select! {
            () = stop.cancelled() => {}
            ended = tasks.join_next() => anyhow::bail!("a task ended unexpectedly: {ended:?}"),
        }
        drain.begin_for_good();
        drain.done().await;
        close_traffic.cancel();
        close.cancel();
        tokio::time::timeout(2 * CLOSE, async {
            while tasks.len() > 1 && tasks.join_next().await.is_some() {}
        })
        .await
        .context("connections did not close")
    }
}

fn build(args: &Args, stop: &CancellationToken) -> anyhow::Result<Parts> {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    runtime::metrics::register_build_info(&registry, "queue-proxy", env!("CARGO_PKG_VERSION"))?;
    let counter = Arc::new(RequestCounter::new(Instant::now().into_std(), into_second(), metrics.clone()));
    let breaker = Breaker::new(args.limit(), args.queue_bound());
    let app = AppReadiness::new(AppProbe::new(args.app_address(), readiness_probe(args)?));
    let drain = Arc::new(Drain::new(counter.clone(), args.drain_quiet_period, args.drain_timeout));
    let availability = Availability::new(app.clone(), drain.clone());
    let load =
        Load { counter: counter.clone(), breaker: breaker.clone(), availability: availability.clone() };
    let tcp = match args.protocol {
        Protocol::Http => None,
        Protocol::Tcp => Some(tcp_proxy(args, &load, TcpMetrics::register(&registry)?, stop)),
    };
    let server = match &tcp {
        None => Server::Http(load),
        Some(proxy) => Server::Tcp(proxy.clone()),
    };
    Ok(Parts {
        app,
        server,
        stats: StatsEndpoint::new(args.pod.clone(), counter, breaker, metrics, registry),
        admin: Admin { availability, drain, tcp },
    })
}

/// One for each worker, with connections to the app of its own.
fn handlers(args: &Args, load: &Load) -> Vec<Handler> {
    let health_checks = Arc::new(HealthChecks::new(&args.health_check_agents));
    let handler = || Handler {
        counter: load.counter.clone(),
        breaker: load.breaker.clone(),
        upstream: Upstream::new(args.app_address()),
        availability: load.availability.clone(),
        health_checks: health_checks.clone(),
        stopwatches: Stopwatches::new(args.timeouts()),
    };
    std::iter::repeat_with(handler).take(args.workers()).collect()
}

fn tcp_proxy(args: &Args, load: &Load, metrics: TcpMetrics, stop: &CancellationToken) -> TcpProxy {
    TcpProxy::new(tcp_proxy::Shared {
        counter: load.counter.clone(),
        breaker: load.breaker.clone(),
        availability: load.availability.clone(),
        app: args.app_address(),
        idle_timeouts: args.idle_timeouts(),
        metrics,
        tunnels: Arc::new(Semaphore::new(args.max_connections.min(Semaphore::MAX_PERMITS))),
        stop: stop.clone(),
    })
}

/// Time since the last whole second of the wall clock, by which periods end.
fn into_second() -> Duration {
    Duration::from_nanos(u64::from(runtime::clock::since_epoch().subsec_nanos()))
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

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

async fn serve_traffic(
    workers: Workers<Handler>,
    listener: TcpListener,
    bounds: ServerOptions,
    stop: CancellationToken,
) {
    let service = |handler: Arc<Handler>| {
        move |request: Request<Incoming>, ends: &Arc<ConnectionAddresses>| {
            let (handler, ends) = (handler.clone(), ends.clone());
            let request = Box::new(request.map(CallerBody::from));
            async move { Ok::<_, Infallible>(handler.handle(request, &ends).await) }
        }
    };
    server::serve_on_workers(&workers, listener, service, bounds, stop).await;
}

/// Who asks by datagrams and gets no answer asks by HTTP, so that a sidecar does without.
async fn datagrams(address: SocketAddr) -> Option<UdpSocket> {
    match UdpSocket::bind(address).await {
        Ok(socket) => Some(socket),
        Err(error) => {
            tracing::warn!(%address, %error, "stats are answered by HTTP alone");
            None
        }
    }
}

/// Answers for, and keeps, the stats.
async fn serve_stats(
    listener: TcpListener,
    datagrams: Option<UdpSocket>,
    stats: Arc<StatsEndpoint>,
    bounds: ServerOptions,
    stop: CancellationToken,
) {
    let service = {
        let stats = stats.clone();
        move |request, _: &_| std::future::ready(Ok::<_, Infallible>(stats.answer(&request)))
    };
    let answer_datagrams = async {
        match &datagrams {
            Some(socket) => stats.answer_datagrams(socket).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = server::serve(listener, service, bounds, stop) => {}
        () = stats.report_periods() => {}
        () = answer_datagrams => {}
    }
}

async fn serve_admin(
    listener: TcpListener,
    admin: Arc<Admin>,
    bounds: ServerOptions,
    stop: CancellationToken,
) {
    let service = move |request, _: &_| {
        let admin = admin.clone();
        async move { Ok::<_, Infallible>(admin.answer(request).await) }
    };
    server::serve(listener, service, bounds, stop).await;
}
