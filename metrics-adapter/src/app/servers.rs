//! The servers of the stats port and of the metrics API, and what authenticates their clients.

use std::sync::Arc;

use arc_swap::ArcSwap;
use autoscaler::contract::STATS_AUDIENCE;
use component_base::auth::{KubernetesReviewer, ProjectedToken, TokenGuard};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::app::certificate;
use crate::app::context::Context;
use crate::args::Args;
use crate::external_metrics::auth::{self, Auth, FrontProxy};
use crate::external_metrics::leader_forwarder::LeaderForwarder;
use crate::external_metrics::{Api, MetricValues};
use crate::sidecar_injection::Webhook;
use crate::stat_server::StatServer;
use crate::tls::tls_server::{self, Services};

/// Starts the servers on these listeners; they serve until `stop`.
///
/// # Errors
/// When TLS cannot be set up.
pub(super) fn start(
    args: &Args,
    context: &Context,
    api_listener: TcpListener,
    stats_listener: TcpListener,
    stop: &CancellationToken,
    tasks: &mut JoinSet<()>,
) -> anyhow::Result<JoinSet<()>> {
    let tls = tls_server::config(certificate::resolver(args, context, tasks))?;
    let reviewer = Arc::new(KubernetesReviewer::new(context.client.clone()));
    let api = api(args, context, authentication(context, reviewer.clone(), tasks));
    let webhook = Arc::new(Webhook::new(args.sidecar.settings(), context.metrics.sidecar_reviews.clone()));
    let stat_server = stat_server(args, context, guard(args, reviewer), stop.clone());
    let mut servers = JoinSet::new();
    servers.spawn(stat_server.serve(stats_listener, api.clone()));
    servers.spawn(tls_server::serve(api_listener, tls, Services { api, webhook }, stop.clone()));
    Ok(servers)
}

fn api(args: &Args, context: &Context, auth: Auth) -> Arc<Api> {
    let values = MetricValues {
        collector: context.observed.collector.clone(),
        decisions: context.decided.decisions.clone(),
        history: context.decided.history.clone(),
        pods: context.pods.clone(),
        workloads: context.workloads.clone(),
    };
    let forwarder = LeaderForwarder::new(
        &args.pod_name,
        context.leadership.clone(),
        ProjectedToken::at(&args.token_file),
    );
    let (readiness, metrics) = (context.readiness.clone(), context.metrics.clone());
    Api::new(values, forwarder, auth, readiness, metrics, args.custom_metrics)
}

/// Authenticates the clients of the metrics API.
fn authentication(context: &Context, reviewer: Arc<KubernetesReviewer>, tasks: &mut JoinSet<()>) -> Auth {
    let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxy::default()));
    let latch = context.readiness.latch("configmap extension-apiserver-authentication");
    tasks.spawn(auth::watch_front_proxy(context.client.clone(), front_proxy.clone(), latch));
    Auth::new(front_proxy, reviewer, context.metrics.reviews.clone())
}

/// Authenticates the clients of the stats port.
fn guard(args: &Args, reviewer: Arc<KubernetesReviewer>) -> TokenGuard {
    if args.open_stats_port {
        return TokenGuard::allow_all();
    }
    TokenGuard::new(reviewer, &args.system_namespace, STATS_AUDIENCE)
}

fn stat_server(args: &Args, context: &Context, guard: TokenGuard, stop: CancellationToken) -> StatServer {
    let (collector, decisions) = (context.observed.collector.clone(), context.decided.decisions.clone());
    let (pokes, metrics) = (context.decided.pokes.clone(), context.metrics.clone());
    StatServer::new(collector, decisions, pokes, metrics, guard, stop)
        .with_pod_reports(context.observed.pod_reports.clone())
        .with_history(context.decided.history.clone())
        .with_name(&args.pod_name)
}
