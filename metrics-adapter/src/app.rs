//! Wiring: binds the sockets, starts the tasks, ends them in order.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use autoscaler::contract::{GROUP, STATS_AUDIENCE};
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use prometheus::Registry;
use proxy::workers;
use runtime::auth::KubernetesReviewer;
use runtime::auth::ProjectedToken;
use runtime::auth::TokenGuard;
use runtime::kubernetes::lease::Lease;
use runtime::readiness::Readiness;
use runtime::{admin, kubernetes, shutdown};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::collector::{self, Collector};
use crate::decisions::Decisions;
use crate::external_metrics::auth::{self, Auth, FrontProxy};
use crate::external_metrics::{Api, Values};
use crate::history::History;
use crate::metric_watch::MetricWatch;
use crate::metrics::Metrics;
use crate::multi_scaler::MultiScaler;
use crate::pokes::Pokes;
use crate::ready_pods::ReadyPods;
use crate::relay::{self, Relay};
use crate::scrape_client::ScrapeClient;
use crate::serving_certificate::{Certificates, ServingCertificate, mounted};
use crate::stat_datagrams::StatDatagrams;
use crate::stat_server::StatServer;
use crate::stats_scraper::StatsScraper;
use crate::workloads::Workloads;
use crate::{api_service, tls_server};

const COMPONENT: &str = "metrics-adapter";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the process until a signal.
///
/// # Errors
/// When it cannot start, or a part of it ended that must not.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tracing::info!(version = VERSION, ?args, "starting");
    let signal = shutdown::on_signal()?;
    let api_listener = bind(args.api_port).await?;
    let stats_listener = bind(args.stats_port).await?;
    let admin_listener = bind(args.admin_port).await?;

    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    runtime::metrics::register_build_info(&registry, COMPONENT, VERSION)?;
    let readiness = Readiness::default();
    // Cancelled when callers have had time to learn that we stop; the admin port outlives the others.
    let stop = CancellationToken::new();
    let end = CancellationToken::new();
    let mut servers = JoinSet::new();
    let mut tasks = JoinSet::new();
    // Taken before anything is served: a process without its watches must not look ready.
    let starting = readiness.latch("the Kubernetes client");
    let admin = tokio::spawn(admin::serve(admin_listener, registry.clone(), readiness.clone(), end.clone()));
    let client = kubernetes::client(COMPONENT, VERSION).await?;

    let stats = SocketAddr::new(args.pod_ip, args.stats_port);
    let identity = relay::identity(&args.pod_name, runtime::clock::unix_millis(), stats);
    let lease = Lease::new(client.clone(), &args.system_namespace, COMPONENT, &identity);
    // Given away at the signal, and not at the end: the next one decides while this one still answers by relay.
    let (mut leadership, election) = lease.elect(signal.clone());
    leadership.register(&registry)?;
    tasks.spawn(election);

    let (table, workloads) = watch::channel(Arc::new(Workloads::default()));
    let collector = Arc::new(Collector::default());
    let decisions = Arc::new(Decisions::default());
    let (pokes, poked) = Pokes::new(collector.clone(), decisions.clone(), workloads.clone());
    let history = Arc::new(History::default());
    let pods = ReadyPods::default();
    let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxy::default()));

    let metric_watch = MetricWatch::new(&client, &args.system_namespace, &readiness, table, metrics.clone());
    tasks.spawn(metric_watch.run());
    tasks.spawn(pods.clone().follow(client.clone(), readiness.latch("pods")));
    let latch = readiness.latch("configmap extension-apiserver-authentication");
    tasks.spawn(auth::follow(client.clone(), front_proxy.clone(), latch));
    let reading = workers::start_thread("collector", end.clone())?;
    let datagrams = {
        let _runtime = reading.enter();
        StatDatagrams::bind(args.pod_stats_port)
    };
    let scraper = StatsScraper {
        collector: collector.clone(),
        pods: pods.clone(),
        client: ScrapeClient::new(args.pod_stats_port, Some(datagrams.clone())),
        workloads: workloads.clone(),
        metrics: metrics.clone(),
    };
    on(&reading, &mut tasks, datagrams.receive());
    on(&reading, &mut tasks, collector::follow(scraper, pokes.clone()));
    let multi_scaler = MultiScaler {
        collector: collector.clone(),
        pods: pods.clone(),
        workloads: workloads.clone(),
        pokes: pokes.clone(),
        decisions: decisions.clone(),
        history: history.clone(),
        leadership: leadership.clone(),
        metrics: metrics.clone(),
    };
    tasks.spawn(multi_scaler.run(poked));
    let certificates = certificate(&args, &client, &metrics, &readiness, &mut tasks);
    let tls = tls_server::config(certificates)?;

    let reviewer = Arc::new(KubernetesReviewer::new(client));
    let guard = if args.open_stats_port {
        TokenGuard::allow_all()
    } else {
        TokenGuard::new(reviewer.clone(), &args.system_namespace, STATS_AUDIENCE)
    };
    let stat_server =
        StatServer::new(collector.clone(), decisions.clone(), pokes, metrics.clone(), guard, stop.clone());
    let values = Values { collector, decisions, history, pods, workloads };
    let auth = Auth::new(front_proxy, reviewer, metrics.reviews.clone());
    let relay = Relay::new(leadership.clone(), ProjectedToken::at(&args.token_file));
    let api = Api::new(values, relay, auth, readiness.clone(), metrics, args.custom_metrics);
    servers.spawn(stat_server.serve(stats_listener, api.clone()));
    servers.spawn(tls_server::serve(api_listener, tls, api, stop.clone()));
    drop(starting);

    let ended = tokio::select! {
        () = signal.cancelled() => Ok(()),
        Some(task) = tasks.join_next() => Err(anyhow::anyhow!("a part of the process ended: {task:?}")),
        Some(server) = servers.join_next() => Err(anyhow::anyhow!("a server ended: {server:?}")),
    };
    readiness.drain();
    signal.cancel();
    if ended.is_ok() {
        tokio::time::sleep(args.shutdown_delay).await;
    }
    stop.cancel();
    while servers.join_next().await.is_some() {}
    leadership.released().await;
    tasks.shutdown().await;
    end.cancel();
    admin.await?;
    ended
}

/// Has another thread do a part; its end, in a panic as well, is seen among `tasks`.
fn on(runtime: &Handle, tasks: &mut JoinSet<()>, part: impl Future<Output = ()> + Send + 'static) {
    let part = runtime.spawn(part);
    tasks.spawn(async {
        if let Err(error) = part.await {
            tracing::error!(%error, "reading pods failed");
        }
    });
}

/// What handshakes use, and the tasks that keep it good.
fn certificate(
    args: &Args,
    client: &Client,
    metrics: &Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Arc<Certificates> {
    let latch = readiness.latch("serving certificate");
    let not_after = metrics.certificate_not_after.clone();
    if let Some(directory) = args.serving_certificate.clone() {
        let certificates = Arc::<Certificates>::default();
        tasks.spawn(mounted::follow(directory, certificates.clone(), not_after, latch));
        return certificates;
    }
    let (ca, changes) = watch::channel(None);
    let (namespace, service) = (&args.system_namespace, &args.service);
    let own = ServingCertificate::new(client.clone(), namespace, service, ca, not_after, latch);
    let certificates = own.certificates();
    tasks.spawn(own.run());
    let reporter =
        Reporter { controller: format!("{GROUP}/{COMPONENT}"), instance: Some(args.pod_name.clone()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let custom = args.custom_metrics.then_some(api_service::CUSTOM);
    for name in [Some(api_service::EXTERNAL), custom].into_iter().flatten() {
        let keeper = api_service::Keeper {
            client: client.clone(),
            name,
            service: (namespace.clone(), service.clone()),
            recorder: recorder.clone(),
            ours: metrics.api_service_ours.with_label_values(&[name]),
        };
        tasks.spawn(api_service::follow(keeper, changes.clone()));
    }
    certificates
}

async fn bind(port: u16) -> anyhow::Result<TcpListener> {
    // IPv4 comes in as well; a machine without IPv6 cannot bind this.
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind(("0.0.0.0", port)).await.with_context(|| format!("port {port}")),
    }
}
