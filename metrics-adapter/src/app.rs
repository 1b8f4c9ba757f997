//! Wiring: binds the sockets, starts the tasks, and stops them in order.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use autoscaler::contract::{GROUP, STATS_AUDIENCE};
use component_base::auth::KubernetesReviewer;
use component_base::auth::ProjectedToken;
use component_base::auth::TokenGuard;
use component_base::kubernetes::NamespaceWatches;
use component_base::kubernetes::lease::Lease;
use component_base::readiness::Readiness;
use component_base::{admin, kubernetes, listener, shutdown, threads};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::runtime::events::{Recorder, Reporter};
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::collection::collector::Collector;
use crate::collection::pod_reports::PodReports;
use crate::collection::scrape_client::ScrapeClient;
use crate::collection::scrape_loop;
use crate::collection::stat_datagrams::StatDatagrams;
use crate::collection::stats_scraper::StatsScraper;
use crate::decisions::decision_history::DecisionHistory;
use crate::decisions::decision_store::DecisionStore;
use crate::decisions::multi_scaler::MultiScaler;
use crate::decisions::pokes::Pokes;
use crate::external_metrics::auth::{self, Auth, FrontProxy};
use crate::external_metrics::leader_forwarder::{self, LeaderForwarder};
use crate::external_metrics::{Api, MetricValues};
use crate::learning::observations::Observations;
use crate::learning::resources::resource_reader::ResourceReader;
use crate::learning::resources::resource_readings::ResourceReadings;
use crate::metrics::Metrics;
use crate::sidecar_injection::Webhook;
use crate::stat_server::StatServer;
use crate::tls::ca_bundle::{self, CaBundleReconciler};
use crate::tls::certificate_resolver::CertificateResolver;
use crate::tls::serving_certificate::ServingCertificate;
use crate::tls::tls_server::{self, Services};
use crate::tls::{api_service, mounted_certificate, webhook_configuration};
use crate::watches::metric_watch::MetricWatch;
use crate::watches::plain_namespaces::namespaces_without_sidecar;
use crate::watches::ready_pods::ReadyPods;
use crate::watches::workloads::WorkloadTable;

const COMPONENT: &str = "metrics-adapter";
/// The Service of this process: the name in its certificate, in the APIServices and in the webhook.
const SERVICE: &str = "metrics-adapter";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs the process until a signal.
///
/// # Errors
/// When it cannot start, or a task or server ends unexpectedly.
pub async fn run(args: Args) -> anyhow::Result<()> {
    tracing::info!(version = VERSION, ?args, "metrics-adapter started");
    let signal = shutdown::on_signal()?;
    let api_listener = bind(args.api_port)?;
    let stats_listener = bind(args.stats_port)?;
    let admin_listener = bind(args.admin_port)?;

    let registry = Registry::new();
    let metrics = Metrics::register(&registry)?;
    component_base::metrics::register_build_info(&registry, COMPONENT, VERSION)?;
    let readiness = Readiness::default();
    // `stop` is cancelled after the shutdown delay; the admin port stays open until `end`.
    let stop = CancellationToken::new();
    let end = CancellationToken::new();
    let mut servers = JoinSet::new();
    let mut tasks = JoinSet::new();
    // Held until all watches are registered, so that the process is not ready without them.
    let starting = readiness.latch("the Kubernetes client");
    let admin = tokio::spawn(admin::serve(admin_listener, registry.clone(), readiness.clone(), end.clone()));
    let client = kubernetes::client(COMPONENT, VERSION).await?;

    let stats = SocketAddr::new(args.pod_ip, args.stats_port);
    let identity = leader_forwarder::identity(&args.pod_name, component_base::clock::unix_millis(), stats);
    let lease = Lease::new(client.clone(), &args.system_namespace, COMPONENT, &identity);
    // Released at the signal: the next leader decides while this replica still forwards queries.
    let (mut leadership, election) = lease.elect(signal.clone());
    leadership.register(&registry, COMPONENT)?;
    tasks.spawn(election);

    let (table, workloads) = watch::channel(Arc::new(WorkloadTable::default()));
    let collector = Arc::new(Collector::default());
    let observations = Arc::new(Observations::default());
    let pod_reports = Arc::new(PodReports::default());
    let resources = Arc::new(ResourceReadings::default());
    let decisions = Arc::new(DecisionStore::default());
    let (pokes, poked) = Pokes::new(collector.clone(), decisions.clone(), workloads.clone());
    let history = Arc::new(DecisionHistory::default());
    let pods = ReadyPods::default();
    let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxy::default()));

    let metric_watch = MetricWatch::new(&client, &args.system_namespace, &readiness, table, metrics.clone());
    let stored_learning = metric_watch.stored_learning();
    tasks.spawn(metric_watch.run());
    tasks.spawn(pods.clone().watch(client.clone(), metrics.decode_errors.clone(), readiness.latch("pods")));
    let (namespaces, follow) = namespaces_without_sidecar(workloads.clone());
    tasks.spawn(follow);
    let errors = metrics.decode_errors.clone();
    let watches = NamespaceWatches::new(client.clone(), namespaces, ReadyPods::unlabelled(), errors);
    tasks.spawn(pods.clone().watch_unlabelled(watches));
    let latch = readiness.latch("configmap extension-apiserver-authentication");
    tasks.spawn(auth::watch_front_proxy(client.clone(), front_proxy.clone(), latch));
    let collector_thread = threads::start_thread("collector", end.clone())?;
    let datagrams = {
        let _runtime = collector_thread.enter();
        StatDatagrams::bind()
    };
    let scraper = StatsScraper {
        collector: collector.clone(),
        observations: observations.clone(),
        pod_reports: pod_reports.clone(),
        resources: resources.clone(),
        pods: pods.clone(),
        client: ScrapeClient::new(Some(datagrams.clone())),
        workloads: workloads.clone(),
        metrics: metrics.clone(),
    };
    spawn_on(&collector_thread, &mut tasks, datagrams.receive());
    let scraped = pokes.clone();
    spawn_on(&collector_thread, &mut tasks, scrape_loop::run(scraper, move |key| scraped.on_scrape(key)));
    let resource_reader = ResourceReader {
        client: client.clone(),
        pods: pods.clone(),
        workloads: workloads.clone(),
        readings: resources.clone(),
        leadership: leadership.clone(),
        metrics: metrics.resources.clone(),
    };
    tasks.spawn(resource_reader.run());
    let multi_scaler = MultiScaler {
        collector: collector.clone(),
        pods: pods.clone(),
        workloads: workloads.clone(),
        pokes: pokes.clone(),
        decisions: decisions.clone(),
        history: history.clone(),
        observations,
        resources,
        stored_learning,
        leadership: leadership.clone(),
        metrics: metrics.clone(),
    };
    tasks.spawn(multi_scaler.run(poked));
    let resolver = serving_certificate(&args, &client, &metrics, &readiness, &mut tasks);
    let tls = tls_server::config(resolver)?;

    let reviewer = Arc::new(KubernetesReviewer::new(client));
    let guard = if args.open_stats_port {
        TokenGuard::allow_all()
    } else {
        TokenGuard::new(reviewer.clone(), &args.system_namespace, STATS_AUDIENCE)
    };
    let stat_server =
        StatServer::new(collector.clone(), decisions.clone(), pokes, metrics.clone(), guard, stop.clone())
            .with_pod_reports(pod_reports)
            .with_history(history.clone());
    let values = MetricValues { collector, decisions, history, pods, workloads };
    let auth = Auth::new(front_proxy, reviewer, metrics.reviews.clone());
    let forwarder = LeaderForwarder::new(leadership.clone(), ProjectedToken::at(&args.token_file));
    let webhook = Arc::new(Webhook::new(args.sidecar.settings(), metrics.sidecar_reviews.clone()));
    let api = Api::new(values, forwarder, auth, readiness.clone(), metrics, args.custom_metrics);
    servers.spawn(stat_server.serve(stats_listener, api.clone()));
    servers.spawn(tls_server::serve(api_listener, tls, Services { api, webhook }, stop.clone()));
    drop(starting);

    let ended = tokio::select! {
        () = signal.cancelled() => Ok(()),
        Some(task) = tasks.join_next() => Err(anyhow::anyhow!("a task ended unexpectedly: {task:?}")),
        Some(server) = servers.join_next() => Err(anyhow::anyhow!("a server ended unexpectedly: {server:?}")),
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

/// Spawns a task on another runtime. Its end, also by a panic, ends an entry of `tasks`.
fn spawn_on(runtime: &Handle, tasks: &mut JoinSet<()>, task: impl Future<Output = ()> + Send + 'static) {
    let task = runtime.spawn(task);
    tasks.spawn(async {
        if let Err(error) = task.await {
            tracing::error!(%error, "collector task failed");
        }
    });
}

/// The resolver of the serving certificate, and the tasks that maintain it.
fn serving_certificate(
    args: &Args,
    client: &Client,
    metrics: &Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Arc<CertificateResolver> {
    let latch = readiness.latch("serving certificate");
    let not_after = metrics.certificate_not_after.clone();
    if let Some(directory) = args.serving_certificate.clone() {
        let resolver = Arc::<CertificateResolver>::default();
        tasks.spawn(mounted_certificate::watch_files(directory, resolver.clone(), not_after, latch));
        return resolver;
    }
    let (ca, changes) = watch::channel(None);
    let namespace = &args.system_namespace;
    let own = ServingCertificate::new(client.clone(), namespace, SERVICE, ca, not_after, latch);
    let resolver = own.resolver();
    tasks.spawn(own.run());
    let reporter =
        Reporter { controller: format!("{GROUP}/{COMPONENT}"), instance: Some(args.pod_name.clone()) };
    let recorder = Recorder::new(client.clone(), reporter);
    let reconciler = |name, owned| CaBundleReconciler {
        client: client.clone(),
        name,
        service: (namespace.clone(), SERVICE.to_owned()),
        recorder: recorder.clone(),
        owned,
    };
    let custom = args.custom_metrics.then_some(api_service::CUSTOM);
    for name in [Some(api_service::EXTERNAL), custom].into_iter().flatten() {
        let reconciler = reconciler(name, metrics.api_service_owned.with_label_values(&[name]));
        tasks.spawn(ca_bundle::reconcile::<APIService>(reconciler, changes.clone()));
    }
    if args.sidecar.settings().is_some() {
        let name = webhook_configuration::SIDECAR;
        let reconciler = reconciler(name, metrics.webhook_owned.with_label_values(&[name]));
        tasks.spawn(ca_bundle::reconcile::<MutatingWebhookConfiguration>(reconciler, changes));
    }
    resolver
}

fn bind(port: u16) -> anyhow::Result<TcpListener> {
    listener::bind_port(port).with_context(|| format!("port {port}"))
}
