//! Startup, wiring and shutdown of the process.
//!
//! [`run`] binds the sockets and starts the election, the watches, the reconcilers and the push
//! server. On shutdown the push server drains first; the other tasks may stop anywhere, because
//! their state is in objects of the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use autoscaler::api::WorkloadPhase;
use autoscaler::contract::{STATS_AUDIENCE, STATS_PORT_NAME, ZERO_SCALER_ACCOUNT};
use autoscaler::settings::AutoscalerConfig;
use autoscaler::stats::reporters::LOST_AFTER;
use component_base::auth::{KubernetesReviewer, ProjectedToken, TokenGuard};
use component_base::kubernetes::lease::{Leadership, Lease};
use component_base::listener::bind_port;
use component_base::readiness::Readiness;
use prometheus::Registry;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::activators::connections::ActivatorConnections;
use crate::activators::directory::Activators;
use crate::activators::path_probe::{NetworkProber, PathProber};
use crate::activators::path_verification::PathVerifications;
use crate::args::Args;
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::watches;
use crate::cache::work_queue::WorkQueues;
use crate::clock::Clock;
use crate::controllers::context::{Clients, Context, Reports, Routing, Scaling};
use crate::controllers::{hpa, orphans, pod_autoscaler, reconciler, serverless_service, silent_activators};
use crate::kubernetes::cluster_settings::ClusterSettings;
use crate::kubernetes::events::{self, Events};
use crate::kubernetes::namespace_teardown;
use crate::kubernetes::rate_limit::{RateLimit, UrgentClient};
use crate::metrics::Metrics;
use crate::pods::start_watch::StartWatches;
use crate::pods::wake_checks::WakeChecks;
use crate::reports::decision_stream::Decisions;
use crate::reports::push_server;
use crate::scaling::first_seen::FirstSeen;
use crate::scaling::overrides::Overrides;
use crate::scaling::scale_targets::ScaleTargets;
use crate::scaling::size_conflicts::SizeConflicts;
use crate::scaling::wake::WakePath;
use crate::scaling::workloads_at_zero::CachedWorkloads;

/// The Service whose endpoints are the metrics-adapters.
const ADAPTER_SERVICE: &str = "metrics-adapter";
/// Interval of the checks whether all lists are complete.
const READINESS_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Shorter than the idle timeout of the client (90 s) and of most API servers and load balancers.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which memory of deleted workloads is freed.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);

/// The controllers' access to the world; tests replace it.
pub struct ExternalInterfaces {
    pub client: kube::Client,
    /// Wall-clock time, for fields of objects.
    pub clock: Clock,
    /// Sends activator path probes.
    pub prober: Arc<dyn PathProber>,
}

/// Runs until a signal arrives or a task ends unexpectedly.
///
/// # Errors
/// When a socket cannot be bound, the API server's address is missing, or a task ends early.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = component_base::shutdown::on_signal()?;
    let registry = Registry::new();
    component_base::metrics::register_build_info(&registry, crate::FIELD_MANAGER, env!("CARGO_PKG_VERSION"))?;
    let metrics = Metrics::register(&registry)?;
    let readiness = Readiness::default();
    let (stats, admin) = (bind_port(args.stats_port)?, bind_port(args.admin_port)?);
    component_base::kubernetes::ensure_own_account(&args.system_namespace, ZERO_SCALER_ACCOUNT)?;
    let client = component_base::kubernetes::client(crate::FIELD_MANAGER, env!("CARGO_PKG_VERSION")).await?;

    let mut tasks = JoinSet::new();
    tasks.spawn(component_base::admin::serve(
        admin,
        registry.clone(),
        readiness.clone(),
        CancellationToken::new(),
    ));
    let lease = Lease::new(client.clone(), &args.system_namespace, crate::FIELD_MANAGER, &args.pod_name);
    let (mut leadership, election) = lease.elect(stop.clone());
    leadership.register(&registry, crate::FIELD_MANAGER)?;
    tasks.spawn(election);
    let interfaces = ExternalInterfaces {
        client: client.clone(),
        clock: Clock::system(),
        prober: Arc::new(NetworkProber),
    };
    let context = controllers(&args, interfaces, &leadership, metrics.clone(), &readiness, &mut tasks);
    follow_adapters(&args, &context, &mut tasks);
    tasks.spawn(prune(context.clone()));
    tasks.spawn(keep_connected(client.clone()));
    tasks.spawn(component_base::kubernetes::watch_revision(client.clone(), &args.system_namespace));
    let guard = token_guard(&args, client);
    let activators = activator_connections(&context);
    let pushes =
        push_server::serve(stats, context.scaling.wake.clone(), metrics, guard, activators, stop.clone());
    let pushes = tokio::spawn(pushes);
    tracing::info!(?args, "started");

    tokio::select! {
        () = stop.cancelled() => {}
        ended = tasks.join_next() => bail!("task ended unexpectedly: {ended:?}"),
    }
    readiness.drain();
    pushes.await.context("push server failed")?;
    context.scaling.wake.drain().await;
    leadership.released().await;
    Ok(())
}

/// Starts the watches, the settings and the reconcilers.
pub fn controllers(
    args: &Args,
    interfaces: ExternalInterfaces,
    leadership: &Leadership,
    metrics: Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Arc<Context> {
    let (context, config) = context(args, interfaces, leadership, metrics, readiness, tasks);
    tasks.spawn(follow_settings(args, &context, config, leadership, readiness));
    tasks.spawn(follow_namespace(args, &context));
    silent_activators::follow(&context, &args.system_namespace, tasks);
    reconcilers(&context, readiness, leadership, tasks);
    context
}

/// The push connections of activators, for [`push_server::serve`].
pub fn activator_connections(context: &Context) -> ActivatorConnections {
    let Context { routing, cache, queues, .. } = context;
    ActivatorConnections::new(routing.activators.clone(), cache.clone(), queues.clone())
}

fn token_guard(args: &Args, client: kube::Client) -> TokenGuard {
    if args.open_stats_port {
        return TokenGuard::allow_all();
    }
    TokenGuard::new(Arc::new(KubernetesReviewer::new(client)), &args.system_namespace, STATS_AUDIENCE)
}

fn context(
    args: &Args,
    interfaces: ExternalInterfaces,
    leadership: &Leadership,
    metrics: Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> (Arc<Context>, watch::Sender<Arc<AutoscalerConfig>>) {
    let ExternalInterfaces { client, clock, prober } = interfaces;
    let queues = Arc::new(WorkQueues::default());
    let cache = cache(args, &client, &queues, &metrics, readiness, tasks);
    let (events, queue) = Events::new(metrics.events_dropped.clone());
    let clients = clients(args, client.clone(), &metrics);
    tasks.spawn(events::write(clients.rate_limited.clone(), args.pod_name.clone(), queue));
    let (config_writer, config) = watch::channel(Arc::new(AutoscalerConfig::default()));
    let scales = Arc::new(ScaleTargets::new(client.clone(), cache.clone()));
    let workloads_at_zero = CachedWorkloads {
        cache: cache.clone(),
        scales: scales.clone(),
        config: config.clone(),
        clock: clock.clone(),
    };
    let wake = Arc::new(WakePath::new(
        scales.clone(),
        workloads_at_zero,
        leadership.clone(),
        queues.autoscalers.clone(),
        events.clone(),
        metrics.clone(),
    ));
    let token = ProjectedToken::at(&args.token_file);
    let scaling = Scaling {
        scales,
        wake,
        decisions: Arc::new(Decisions::new(queues.autoscalers.clone(), metrics.clone(), token)),
        first_seen: FirstSeen::default(),
        overrides: Overrides::default(),
        size_conflicts: SizeConflicts::default(),
        starts: StartWatches::new(client.clone(), queues.clone(), &metrics.decode_errors),
        wake_checks: WakeChecks::new(client),
    };
    let routing = routing(args, &cache, prober, &queues, &metrics);
    let context = Context {
        clients,
        cache,
        config,
        custom_metrics: args.custom_metrics,
        clock,
        scaling,
        routing,
        reports: Reports::new(events),
        metrics,
        queues,
    };
    (Arc::new(context), config_writer)
}

/// The cache, and the watches that fill it.
fn cache(
    args: &Args,
    client: &kube::Client,
    queues: &Arc<WorkQueues>,
    metrics: &Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Arc<ClusterCache> {
    let (namespace, ports) = (&args.system_namespace, args.ports_per_namespace);
    let (cache, watches) = watches::watches(client, namespace, ports, queues.clone(), metrics, readiness);
    for watch in watches {
        tasks.spawn(watch);
    }
    cache
}

fn clients(args: &Args, client: kube::Client, metrics: &Metrics) -> Clients {
    let rate_limit = RateLimit::new(args.rate(), metrics.rate_limited_seconds.clone());
    let urgent = UrgentClient::new(client);
    Clients { rate_limited: rate_limit.client(&urgent), urgent, rate_limit }
}

fn routing(
    args: &Args,
    cache: &Arc<ClusterCache>,
    prober: Arc<dyn PathProber>,
    queues: &WorkQueues,
    metrics: &Metrics,
) -> Routing {
    let autoscalers = queues.autoscalers.clone();
    Routing {
        verifications: PathVerifications::new(prober.clone(), autoscalers, metrics.path_probes.clone()),
        activators: Arc::new(Activators::new(cache.clone(), args.system_namespace.clone(), prober)),
    }
}

fn follow_settings(
    args: &Args,
    context: &Arc<Context>,
    config: watch::Sender<Arc<AutoscalerConfig>>,
    leadership: &Leadership,
    readiness: &Readiness,
) -> impl Future<Output = ()> + Send + use<> {
    let shared = context.clone();
    let enqueue_everything = move || shared.queues.enqueue_everything(&shared.cache);
    let activators = context.routing.activators.clone();
    let announce = move |uninstall| activators.announce_uninstall(uninstall);
    let settings = ClusterSettings::new(
        context.clients.rate_limited.clone(),
        args.system_namespace.clone(),
        context.reports.events.clone(),
        config,
        leadership.clone(),
    );
    settings.run(enqueue_everything, announce, readiness.latch("cluster settings"))
}

fn follow_namespace(args: &Args, context: &Arc<Context>) -> impl Future<Output = ()> + Send + use<> {
    let shared = context.clone();
    let on_deletion = move || {
        shared.routing.activators.namespace_is_deleted();
        shared.queues.enqueue_everything(&shared.cache);
    };
    namespace_teardown::follow(context.clients.urgent.clone(), args.system_namespace.clone(), on_deletion)
}

fn follow_adapters(args: &Args, context: &Context, tasks: &mut JoinSet<()>) {
    let client = context.clients.urgent.without_rate_limit().clone();
    let (namespace, errors) = (&args.system_namespace, &context.metrics.decode_errors);
    let (adapters, watch) =
        component_base::kubernetes::watch_peers(client, namespace, ADAPTER_SERVICE, STATS_PORT_NAME, errors);
    tasks.spawn(watch);
    tasks.spawn(context.scaling.decisions.clone().follow(adapters));
}

fn reconcilers(
    context: &Arc<Context>,
    readiness: &Readiness,
    leadership: &Leadership,
    tasks: &mut JoinSet<()>,
) {
    let (readiness, leadership) = (readiness.clone(), leadership.clone());
    let context = context.clone();
    tasks.spawn(async move {
        all_listed(readiness).await;
        // An error means that an activator is silent, which the reconciles take into account.
        let _ = tokio::time::timeout(LOST_AFTER, all_report(&context)).await;
        reconcile_while_leading(context, leadership).await;
    });
}

/// Reconciles all objects when this replica acquires leadership, and changed objects while it
/// leads. Other replicas only wake workloads.
async fn reconcile_while_leading(context: Arc<Context>, mut leadership: Leadership) {
    loop {
        leadership.acquired().await;
        tokio::select! {
            () = reconcile_all(&context) => return,
            () = leadership.lost() => {
                tracing::info!("leadership lost, reconcilers stopped");
                // The next leader watches the pods that do not start.
                context.scaling.starts.prune(&BTreeSet::new());
            }
        }
    }
}

async fn reconcile_all(context: &Arc<Context>) {
    let (cache, queues) = (&context.cache, &context.queues);
    let shared = || context.clone();
    tokio::join!(
        reconciler::run("HPA", cache.hpas.clone(), queues.hpas.clone(), shared(), hpa::reconcile),
        reconciler::run(
            "PodAutoscaler",
            cache.autoscalers.clone(),
            queues.autoscalers.clone(),
            shared(),
            pod_autoscaler::reconcile,
        ),
        reconciler::run(
            "ServerlessService",
            cache.serverless_services.clone(),
            queues.serverless_services.clone(),
            shared(),
            serverless_service::reconcile,
        ),
        orphans::scale_orphans(shared()),
    );
}

/// Waits until every list is complete and the settings were read. A reconciler that started earlier
/// would treat unlisted objects as deleted, and remove the endpoints of Services that serve.
async fn all_listed(readiness: Readiness) {
    while !readiness.is_ready() {
        tokio::time::sleep(READINESS_POLL_INTERVAL).await;
    }
}

/// Waits until each activator reported to this process. A reconcile before would write for each
/// idle workload that activators are silent.
async fn all_report(context: &Context) {
    while !context.routing.activators.ready().is_empty() && !context.routing.activators.all_report() {
        tokio::time::sleep(READINESS_POLL_INTERVAL).await;
    }
}

/// Keeps a connection to the API server open, because a TLS handshake would delay a wake by
/// milliseconds.
async fn keep_connected(client: kube::Client) {
    loop {
        tokio::time::sleep(KEEPALIVE_INTERVAL).await;
        if let Err(error) = client.apiserver_version().await {
            tracing::debug!(%error, "keepalive request to the API server failed");
        }
    }
}

async fn prune(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PRUNE_INTERVAL).await;
        context.metrics.savings.set(context.cache.savings(context.clock.now()));
        let paused = context.cache.in_phase(WorkloadPhase::Paused);
        context.metrics.paused_workloads.set(i64::try_from(paused).unwrap_or(i64::MAX));
        context.scaling.wake.prune();
        context.routing.activators.prune();
        let exists = |key: &_| context.cache.autoscaler_meta(key).is_some();
        context.clients.rate_limit.prune(exists);
        context.routing.verifications.prune(exists);
        context.scaling.first_seen.prune(exists);
        context.scaling.overrides.prune(exists);
        context.scaling.size_conflicts.prune(exists);
        context.scaling.wake_checks.prune(exists);
        context.scaling.scales.prune();
        context.scaling.starts.prune(&context.cache.workloads().into_iter().collect());
    }
}
