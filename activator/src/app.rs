//! Wiring: which tasks run, and what they share.

mod drain;
mod drain_times;
pub mod own_pod;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use autoscaler::contract::{ACTIVATOR_ACCOUNT, SLOTS_PORT_NAME, STATS_AUDIENCE, STATS_PORT_NAME};
use component_base::auth::KubernetesReviewer;
use component_base::auth::ProjectedToken;
use component_base::auth::TokenGuard;
use component_base::kubernetes::{ApiResources, DecodeErrors};
use component_base::listener::bind_port;
use component_base::readiness::Readiness;
use http::Method;
use prometheus::Registry;
use proxy::health_checks::HealthChecks;
use proxy::memory::budget::MemoryBudget;
use proxy::memory::{descriptors, estimates, limit};
use proxy::server::ServerOptions;
use proxy::workers::Workers;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::drain::Drain;
use crate::app::own_pod::OwnPod;
use crate::args::{Args, Limits, worker_count};
use crate::fallback_waker::{FallbackWaker, StrandedQuery};
use crate::metrics::traces::TraceMetrics;
use crate::metrics::{self, Metrics};
use crate::pods::forwarder::Forwarder;
use crate::queue::context::ThrottlerContext;
use crate::queue::workload_throttler::WorkloadThrottler;
use crate::reports::carried_publication::CarriedPublication;
use crate::reports::concurrency_reporter::ConcurrencyReporter;
use crate::reports::stat_reporter::{Addresses, StatReporter};
use crate::requests::at_zero::waiting_page::{WaitingPage, template_file};
use crate::requests::connection_arrivals::ConnectionArrivals;
use crate::requests::context::RequestContext;
use crate::requests::listeners::Listeners;
use crate::requests::tcp_probes::TcpProbes;
use crate::requests::wake_bound::WakeBound;
use crate::requests::wake_endpoint::WakeEndpoint;
use crate::slots::slot_exchange::{self, SlotExchangeConfig};
use crate::throttler::Throttler;
use crate::traces::collector::{self, CollectorError};
use crate::traces::rate_limited_sampler::rate_limited;
use crate::traces::settings::TraceSettings;
use crate::traces::span_export::SpanExport;
use crate::traces::tracer::Tracer;
use crate::workloads::directory::WorkloadDirectory;
use crate::workloads::{ClusterChange, Namespaces, file, kubernetes};

/// Changes that may wait to be applied; the watches wait beyond that.
const CHANGES: usize = 1024;

/// The inputs of an activator: from watches in a cluster, or from a file.
#[derive(Debug)]
pub struct Sources {
    /// Workloads and pods.
    pub changes: mpsc::Receiver<ClusterChange>,
    /// Metrics-adapters, which receive reports.
    pub adapters: Addresses,
    /// Zero-scalers, which receive reports.
    pub zero_scalers: Addresses,
    /// API resources for the fallback waker; `None` disables it.
    pub fallback_waker: Option<ApiResources>,
    /// Publishes the workloads with requests that cannot be reported; `None` disables it.
    pub publication: Option<CarriedPublication>,
    /// Receives the namespaces of which `changes` must have the unlabelled pods as well.
    pub namespaces: watch::Sender<Namespaces>,
    /// Other activators; `None` uses the slots of all pods, as the only activator.
    pub slot_exchange: Option<SlotExchangeConfig>,
}

/// The activator without its sources.
#[derive(Debug)]
pub struct App {
    limits: Limits,
    throttlers: Arc<ThrottlerContext>,
    requests: Arc<RequestContext>,
    workers: Workers<Forwarder>,
    workloads: WorkloadDirectory<WorkloadThrottler>,
    wake_listener: Option<TcpListener>,
    own_pod: Option<OwnPod>,
    outlet: StatReporter,
    /// `None` without a collector.
    span_export: Option<SpanExport>,
}

/// Runs an activator until SIGTERM.
///
/// # Errors
/// When it cannot start, or one of its tasks has ended.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stop = component_base::shutdown::on_signal().context("signals")?;
    let registry = Registry::new();
    component_base::metrics::register_build_info(&registry, "activator", env!("CARGO_PKG_VERSION"))?;
    let traces = TraceSettings::read(|name| std::env::var(name).ok(), &args.pod_name)?;
    let (name, limits) = (args.pod_name.clone(), args.limits());
    let mut app = App::new(name, limits, &args.health_check_agents, traces.clone(), &registry)?
        .with_token(ProjectedToken::at(&args.token_file));
    let readiness = Readiness::default();
    let admin = bind_port(args.admin_port)?;
    let admin_stop = CancellationToken::new();
    let _admin_stops = admin_stop.clone().drop_guard();
    if let Some(path) = &args.waiting_page {
        tokio::spawn(template_file::follow(path.clone(), app.requests.waiting_page.clone()));
    }
    let probes = app.tcp_probes();
    let more = move |method: &Method, path: &str| probes.answer(method, path);
    tokio::spawn(component_base::admin::serve_with(more, admin, registry, readiness.clone(), admin_stop));
    let sources = match &args.workloads {
        Some(path) => follow_file(path, &readiness)?,
        None => {
            component_base::kubernetes::ensure_own_account(&args.system_namespace, ACTIVATOR_ACCOUNT)?;
            app = app.with_wake_endpoint(bind_port(args.wake_port)?);
            let client = component_base::kubernetes::client("activator", env!("CARGO_PKG_VERSION")).await?;
            app = app.with_own_pod(OwnPod::new(&client, &args.system_namespace, &args.pod_name));
            watch_cluster(client, &args, &readiness, &app.throttlers.metrics.decode_errors).await?
        }
    };
    tracing::info!(?args, ?traces, "activator started");
    app.run(sources, &readiness, stop).await;
    Ok(())
}

fn follow_file(path: &std::path::Path, readiness: &Readiness) -> anyhow::Result<Sources> {
    let file = file::follow(path, readiness.latch("workloads file"))
        .with_context(|| format!("workloads in {}", path.display()))?;
    Ok(Sources {
        changes: file.changes,
        adapters: file.adapters,
        zero_scalers: file.zero_scalers,
        fallback_waker: None,
        publication: None,
        namespaces: watch::Sender::default(),
        slot_exchange: None,
    })
}

async fn watch_cluster(
    client: kube::Client,
    args: &Args,
    readiness: &Readiness,
    errors: &DecodeErrors,
) -> anyhow::Result<Sources> {
    let (sender, changes) = mpsc::channel(CHANGES);
    let workloads = readiness.latch("serverlessservices watch");
    let pods = readiness.latch("pods watch");
    let (state, own) = (args.state_directory.as_deref(), args.location());
    tokio::spawn(component_base::kubernetes::watch_revision(client.clone(), &args.system_namespace));
    tokio::spawn(kubernetes::follow_workloads(client.clone(), state, errors, sender.clone(), workloads));
    tokio::spawn(kubernetes::follow_pods(client.clone(), own.clone(), state, errors, sender.clone(), pods));
    let namespaces = watch::Sender::<Namespaces>::default();
    tokio::spawn(kubernetes::follow_pods_of_namespaces(
        client.clone(),
        own,
        namespaces.subscribe(),
        state,
        errors,
        sender,
    ));
    let peers = |service, port| {
        let (addresses, follow) = component_base::kubernetes::watch_peers(
            client.clone(),
            &args.system_namespace,
            service,
            port,
            errors,
        );
        tokio::spawn(follow);
        addresses
    };
    let slot_exchange = match args.pod_ip {
        Some(own) => {
            let address = SocketAddr::new(own, args.slots_port);
            let listener =
                TcpListener::bind(address).await.with_context(|| format!("slots port {address}"))?;
            Some(SlotExchangeConfig {
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
        publication: Some(CarriedPublication::new(&client, &args.system_namespace, &args.pod_name)),
        fallback_waker: Some(ApiResources::new(client)),
        namespaces,
        slot_exchange,
    })
}

fn token_guard(client: kube::Client, args: &Args) -> TokenGuard {
    TokenGuard::new(Arc::new(KubernetesReviewer::new(client)), &args.system_namespace, STATS_AUDIENCE)
}

fn tracer(
    settings: Option<TraceSettings>,
    metrics: &TraceMetrics,
) -> Result<Option<(Arc<Tracer>, SpanExport)>, CollectorError> {
    let Some(settings) = settings else { return Ok(None) };
    let limit = rate_limited(settings.traces_per_second, metrics.clone());
    let export = SpanExport::start(collector::exporter(&settings)?, limit, metrics.clone());
    Ok(Some((Arc::new(Tracer::new(settings.sampler, export.tracer())), export)))
}

// === impl App ===

impl App {
    /// An activator that reports as `pod_name`. A request is a health check if its user agent
    /// begins with one of `health_check_agents`. With `traces`, it exports spans.
    ///
    /// # Errors
    /// When its metrics are in the registry already, the settings of traces are invalid, or the
    /// system gives it no threads.
    pub fn new(
        pod_name: String,
        limits: Limits,
        health_check_agents: &[String],
        traces: Option<TraceSettings>,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::register(registry).context("metrics")?;
        let descriptors = descriptors::raise_limit();
        metrics::register_descriptor_limit(registry, descriptors).context("metrics")?;
        let budget = limits.memory_budget.unwrap_or_else(limit::default_budget);
        let outlet = StatReporter::new(&pod_name, metrics.push.clone());
        let (tracer, span_export) = tracer(traces, &metrics.traces).context("traces")?.unzip();
        let throttlers = Arc::new(ThrottlerContext {
            prober: Forwarder::default(),
            reporter: ConcurrencyReporter::new(pod_name, outlet.clone()),
            metrics,
            memory: MemoryBudget::new(descriptors::bounded_budget(budget, descriptors)),
            workers: worker_count(),
            limits,
        });
        let requests = Arc::new(RequestContext {
            health_checks: HealthChecks::new(health_check_agents),
            waiting_page: WaitingPage::new(limits.waiting_page_after),
            idle_timeouts: limits.idle_timeouts(),
            tcp_probes: TcpProbes::default(),
            wakes: WakeBound::default(),
            arrivals: ConnectionArrivals::default(),
            draining: AtomicBool::new(false),
            tracer,
            workers: worker_count(),
        });
        let workers = Workers::start((0..worker_count()).map(Forwarder::for_worker)).context("threads")?;
        let workloads = WorkloadDirectory::default();
        Ok(Self {
            limits,
            throttlers,
            requests,
            workers,
            workloads,
            wake_listener: None,
            own_pod: None,
            outlet,
            span_export,
        })
    }

    /// Authenticates to the receivers of reports with this token.
    #[must_use]
    pub fn with_token(mut self, token: ProjectedToken) -> Self {
        self.outlet = self.outlet.with_token(token);
        self
    }

    /// Answers front doors on this listener.
    #[must_use]
    pub fn with_wake_endpoint(mut self, listener: TcpListener) -> Self {
        self.wake_listener = Some(listener);
        self
    }

    /// Drains for as long as the kubelet gives this pod.
    #[must_use]
    pub fn with_own_pod(mut self, pod: OwnPod) -> Self {
        self.own_pod = Some(pod);
        self
    }

    /// The part of the admin port that announces probes of TCP ports.
    pub fn tcp_probes(&self) -> TcpProbes {
        self.requests.tcp_probes.clone()
    }

    /// Runs until `stop`, then drains.
    pub async fn run(mut self, sources: Sources, readiness: &Readiness, stop: CancellationToken) {
        let (close, connections) = (CancellationToken::new(), TaskTracker::new());
        let hold_end = CancellationToken::new();
        let options = ServerOptions {
            header_read_timeout: self.limits.header_timeout,
            idle_timeout: self.limits.connection_idle_timeout,
            drain_timeout: self.limits.drain_timeout,
            http2_window: estimates::BODY_READ_AHEAD,
            ..ServerOptions::default()
        };
        let listeners = Listeners::new(options, self.workers.clone(), close.clone(), connections.clone());
        let (context, requests) = (self.throttlers.clone(), self.requests.clone());
        let throttler =
            Throttler::new(context, requests, listeners, sources.namespaces, self.workloads.clone());
        if let Some(listener) = self.wake_listener.take() {
            let endpoint = WakeEndpoint::new(self.requests.clone(), self.workloads.clone());
            connections.spawn(endpoint.serve(listener, self.limits, close.clone()));
        }
        let metrics = &self.throttlers.metrics;
        let (peers, exchange) = slot_exchange::exchange(sources.slot_exchange, metrics.slot_exchange.clone());
        let (queries, stranded) = mpsc::channel(1);
        let waker = self.run_fallback_waker(sources.fallback_waker, sources.zero_scalers.clone(), queries);
        let receivers = [sources.adapters.clone(), sources.zero_scalers.clone()];
        let work = async {
            tokio::join!(
                throttler.run(sources.changes, peers, stranded, hold_end.clone()),
                waker,
                self.publish_carried(sources.publication, receivers),
                exchange,
                self.throttlers.reporter.run(),
                self.outlet.run(sources.adapters, sources.zero_scalers),
            )
        };
        let end = async {
            stop.cancelled().await;
            let Self { limits, requests, own_pod, .. } = &self;
            Drain { limits, requests, own_pod: own_pod.as_ref(), readiness }
                .run(&close, &connections, &hold_end)
                .await;
        };
        tokio::select! {
            _ = work => tracing::error!("a task ended unexpectedly, stopping"),
            () = end => {}
        }
        if let Some(export) = self.span_export.take() {
            export.stop().await;
        }
    }

    async fn run_fallback_waker(
        &self,
        resources: Option<ApiResources>,
        zero_scalers: Addresses,
        queries: mpsc::Sender<StrandedQuery>,
    ) {
        let Some(resources) = resources else { return };
        let metrics = self.throttlers.metrics.fallback_waker.clone();
        let waker = FallbackWaker::new(resources, self.limits.fallback_wake_after, metrics);
        waker.run(|| self.outlet.reaches_any(&zero_scalers.borrow()), queries).await;
    }

    async fn publish_carried(&self, publication: Option<CarriedPublication>, receivers: [Addresses; 2]) {
        let Some(publication) = publication else { return };
        let is_reported = || receivers.iter().all(|addresses| self.outlet.reaches_all(&addresses.borrow()));
        publication.run(is_reported, || self.throttlers.reporter.carried()).await;
    }
}
