//! Wiring: sockets, watches, reconcilers, and the order in which they end.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use autoscaler::contract::{STATS_AUDIENCE, STATS_PORT_NAME};
use autoscaler::settings::AutoscalerConfig;
use prometheus::Registry;
use runtime::auth::KubernetesReviewer;
use runtime::auth::ProjectedToken;
use runtime::auth::TokenGuard;
use runtime::kubernetes::lease::{Leadership, Lease};
use runtime::readiness::Readiness;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::activators::directory::Activators;
use crate::activators::path_probe::{NetworkProber, PathProber};
use crate::activators::path_verification::PathVerifications;
use crate::args::Args;
use crate::cache::watches;
use crate::cache::work_queue::WorkQueues;
use crate::clock::Clock;
use crate::controllers::context::Context;
use crate::controllers::{hpa, orphans, pod_autoscaler, reconciler, serverless_service};
use crate::kubernetes::event_deduplicator::EventDeduplicator;
use crate::kubernetes::events::{self, Events};
use crate::kubernetes::rate_limit::RateLimit;
use crate::kubernetes::{cluster_settings, namespace_teardown};
use crate::metrics::Metrics;
use crate::pods::start_watch::StartWatches;
use crate::reports::decision_stream::Decisions;
use crate::reports::push_server;
use crate::scaling::overrides::Overrides;
use crate::scaling::scale_targets::ScaleTargets;
use crate::scaling::wake::{CachedWorkloads, WakePath};

/// The Service whose endpoints are the adapters.
const ADAPTER_SERVICE: &str = "metrics-adapter";
/// How often to see whether all is known.
const SYNC_POLL: Duration = Duration::from_millis(5);
/// Shorter than the client closes idle connections, 90 s, and than most API servers and balancers do.
const WARM_EVERY: Duration = Duration::from_secs(15);
/// How often memory of workloads that are gone is freed.
const PRUNE_EVERY: Duration = Duration::from_secs(600);

/// What the controllers reach the world by.
pub struct ExternalInterfaces {
    /// The API server.
    pub client: kube::Client,
    /// What time it is, for objects.
    pub clock: Clock,
    /// Who asks activators.
    pub prober: Arc<dyn PathProber>,
}

/// Runs until a signal comes, or a part ends that should not.
///
/// # Errors
/// When a socket cannot be bound, the API server's address is not known, or a part ends early.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = runtime::shutdown::on_signal()?;
    let registry = Registry::new();
    runtime::metrics::register_build_info(&registry, crate::FIELD_MANAGER, env!("CARGO_PKG_VERSION"))?;
    let metrics = Metrics::register(&registry)?;
    let readiness = Readiness::default();
    let stats = bind(&args, args.stats_port).await?;
    let admin = bind(&args, args.admin_port).await?;
    let client = runtime::kubernetes::client(crate::FIELD_MANAGER, env!("CARGO_PKG_VERSION")).await?;

    let mut tasks = JoinSet::new();
    tasks.spawn(runtime::admin::serve(admin, registry.clone(), readiness.clone(), CancellationToken::new()));
    let lease = Lease::new(client.clone(), &args.system_namespace, crate::FIELD_MANAGER, &args.pod_name);
    let (mut leadership, election) = lease.elect(stop.clone());
    leadership.register(&registry, crate::FIELD_MANAGER)?;
    tasks.spawn(election);
    let edges = ExternalInterfaces {
        client: client.clone(),
        clock: Clock::system(),
        prober: Arc::new(NetworkProber),
    };
    let context = controllers(&args, edges, &leadership, metrics.clone(), &readiness, &mut tasks);
    follow_adapters(&args, &context, &mut tasks);
    tasks.spawn(prune(context.clone()));
    tasks.spawn(keep_warm(client.clone()));
    let guard = guard(&args, client);
    let pushes = push_server::serve(stats, context.wake.clone(), metrics, guard, stop.clone());
    let pushes = tokio::spawn(pushes);
    tracing::info!(?args, "started");

    tokio::select! {
        () = stop.cancelled() => {}
        ended = tasks.join_next() => bail!("a part ended that should not: {ended:?}"),
    }
    readiness.drain();
    pushes.await?.context("pushes")?;
    // Everything else may stop anywhere, because its state is in objects.
    context.wake.drain().await;
    leadership.released().await;
    Ok(())
}

/// The watches, the settings and the reconcilers: all that works by objects alone.
pub fn controllers(
    args: &Args,
    edges: ExternalInterfaces,
    leadership: &Leadership,
    metrics: Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> Arc<Context> {
    let (context, config) = context(args, edges, leadership, metrics, readiness, tasks);
    tasks.spawn(follow_config(args, &context, config, readiness));
    tasks.spawn(follow_namespace(args, &context));
    reconcilers(&context, readiness, leadership, tasks);
    context
}

fn guard(args: &Args, client: kube::Client) -> TokenGuard {
    if args.open_stats_port {
        return TokenGuard::allow_all();
    }
    TokenGuard::new(Arc::new(KubernetesReviewer::new(client)), &args.system_namespace, STATS_AUDIENCE)
}

async fn bind(args: &Args, port: u16) -> anyhow::Result<TcpListener> {
    let address = SocketAddr::new(args.listen, port);
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

fn context(
    args: &Args,
    edges: ExternalInterfaces,
    leadership: &Leadership,
    metrics: Metrics,
    readiness: &Readiness,
    tasks: &mut JoinSet<()>,
) -> (Arc<Context>, watch::Sender<Arc<AutoscalerConfig>>) {
    let ExternalInterfaces { client, clock, prober } = edges;
    let queues = Arc::new(WorkQueues::default());
    let (objects, watches) =
        watches::watches(&client, &args.system_namespace, queues.clone(), &metrics.watch_errors, readiness);
    for watch in watches {
        tasks.spawn(watch);
    }
    let (events, queue) = Events::new(metrics.events_dropped.clone());
    let pace = RateLimit::new(args.rate(), metrics.rate_limited_seconds.clone());
    let paced = pace.client(client.clone());
    tasks.spawn(events::write(paced.clone(), args.pod_name.clone(), queue));
    let (config_writer, config) = watch::channel(Arc::new(AutoscalerConfig::default()));
    let scales = Arc::new(ScaleTargets::new(client.clone(), objects.clone()));
    let workloads_at_zero =
        CachedWorkloads { cache: objects.clone(), scales: scales.clone(), config: config.clone() };
    let woken = queues.autoscalers.clone();
    let wake = Arc::new(WakePath::new(
        scales.clone(),
        workloads_at_zero,
        leadership.clone(),
        woken,
        events.clone(),
        metrics.clone(),
    ));
    let context = Context {
        starts: StartWatches::new(client.clone(), queues.clone()),
        client,
        rate_limited: paced,
        rate_limit: pace,
        scales,
        wake,
        decisions: Arc::new(Decisions::new(
            queues.autoscalers.clone(),
            metrics.clone(),
            ProjectedToken::at(&args.token_file),
        )),
        verifications: PathVerifications::new(
            prober.clone(),
            queues.autoscalers.clone(),
            metrics.path_probes.clone(),
        ),
        activators: Arc::new(Activators::new(objects.clone(), args.system_namespace.clone(), prober)),
        clock,
        cache: objects,
        config,
        custom_metrics: args.custom_metrics,
        events,
        metrics,
        queues,
        overrides: Overrides::default(),
        warnings: EventDeduplicator::default(),
        advice: EventDeduplicator::default(),
        modes: EventDeduplicator::default(),
    };
    (Arc::new(context), config_writer)
}

fn follow_config(
    args: &Args,
    context: &Arc<Context>,
    config: watch::Sender<Arc<AutoscalerConfig>>,
    readiness: &Readiness,
) -> impl Future<Output = ()> + Send + use<> {
    let shared = context.clone();
    let everything = move || shared.queues.everything(&shared.cache);
    let (client, events) = (context.client.clone(), context.events.clone());
    let unread = readiness.latch("cluster settings");
    cluster_settings::follow(client, args.system_namespace.clone(), events, config, everything, unread)
}

fn follow_namespace(args: &Args, context: &Arc<Context>) -> impl Future<Output = ()> + Send + use<> {
    let shared = context.clone();
    let leave = move || {
        shared.activators.leave();
        shared.queues.everything(&shared.cache);
    };
    namespace_teardown::follow(context.client.clone(), args.system_namespace.clone(), leave)
}

fn follow_adapters(args: &Args, context: &Context, tasks: &mut JoinSet<()>) {
    let client = context.client.clone();
    let (adapters, watch) =
        runtime::kubernetes::watch_peers(client, &args.system_namespace, ADAPTER_SERVICE, STATS_PORT_NAME);
    tasks.spawn(watch);
    tasks.spawn(context.decisions.clone().follow(adapters));
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
        everything_known(readiness).await;
        reconcile_while_leading(context, leadership).await;
    });
}

/// Looks at everything whenever this replica comes to lead, and at what changes for as long as it does. A replica that
/// follows wakes whom it is asked to, and writes nothing else.
async fn reconcile_while_leading(context: Arc<Context>, mut leadership: Leadership) {
    loop {
        leadership.acquired().await;
        tokio::select! {
            () = reconcile_all(&context) => return,
            () = leadership.lost() => {
                tracing::info!("this replica does not lead any more");
                // Whose pods do not start is for the next leader to watch.
                context.starts.prune(&BTreeSet::new());
            }
        }
    }
}

async fn reconcile_all(context: &Arc<Context>) {
    let (objects, queues) = (&context.cache, &context.queues);
    let shared = || context.clone();
    tokio::join!(
        reconciler::run("HPA", objects.hpas.clone(), queues.hpas.clone(), shared(), hpa::reconcile),
        reconciler::run(
            "PodAutoscaler",
            objects.autoscalers.clone(),
            queues.autoscalers.clone(),
            shared(),
            pod_autoscaler::reconcile,
        ),
        reconciler::run(
            "ServerlessService",
            objects.serverless_services.clone(),
            queues.serverless_services.clone(),
            shared(),
            serverless_service::reconcile,
        ),
        orphans::scale_orphans(shared()),
    );
}

/// Until every kind was listed and the settings were read. A reconciler that started earlier would take what is not listed
/// yet for gone, and empty Services that serve.
async fn everything_known(readiness: Readiness) {
    while !readiness.is_ready() {
        tokio::time::sleep(SYNC_POLL).await;
    }
}

/// Keeps a connection to the API server open: a wake that had to shake hands first would lose milliseconds.
async fn keep_warm(client: kube::Client) {
    loop {
        tokio::time::sleep(WARM_EVERY).await;
        if let Err(error) = client.apiserver_version().await {
            tracing::debug!(%error, "the API server did not answer");
        }
    }
}

async fn prune(context: Arc<Context>) {
    loop {
        tokio::time::sleep(PRUNE_EVERY).await;
        context.wake.prune();
        context.activators.prune();
        let exists = |key: &_| context.cache.autoscaler_meta(key).is_some();
        context.rate_limit.prune(exists);
        context.verifications.prune(exists);
        context.overrides.prune(exists);
        context.scales.prune();
        context.starts.prune(&context.cache.workloads().into_iter().collect());
    }
}
