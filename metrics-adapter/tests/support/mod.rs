//! A metrics-adapter without a cluster: tests add its objects, and every request is authorized.

#![allow(dead_code, reason = "each test uses its part")]

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use autoscaler::api::OwnershipRank;
use autoscaler::contract::STATS_AUDIENCE;
use autoscaler::contract::selector::Selector;
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::settings::{Aggregation, SidecarMode};
use autoscaler::stats::collection::WindowSpec;
use autoscaler::stats::{ActivatorReport, Stat, StatMessage};
use autoscaler::{DecisionEvent, Key, contract::metric_name::MetricName};
use component_base::auth::{Access, KubernetesReviewer, ReviewError, Reviewer, TokenGuard, User};
use component_base::kubernetes::lease::Leadership;
use component_base::readiness::Readiness;
use fake_api::FakeApi;
use futures::StreamExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::runtime::watcher::Event;
use metrics_adapter::collection::collector::Collector;
use metrics_adapter::collection::pod_reports::PodReports;
use metrics_adapter::collection::scrape_client::ScrapeClient;
use metrics_adapter::collection::scrape_loop;
use metrics_adapter::collection::stats_scraper::StatsScraper;
use metrics_adapter::decisions::decision_history::DecisionHistory;
use metrics_adapter::decisions::decision_store::DecisionStore;
use metrics_adapter::decisions::multi_scaler::MultiScaler;
use metrics_adapter::decisions::pokes::Pokes;
use metrics_adapter::external_metrics::auth::{Auth, FrontProxy, PeerCertificates};
use metrics_adapter::external_metrics::leader_forwarder::LeaderForwarder;
use metrics_adapter::external_metrics::{Api, MetricValues};
use metrics_adapter::learning::observations::Observations;
use metrics_adapter::learning::resources::resource_readings::ResourceReadings;
use metrics_adapter::metrics::Metrics;
use metrics_adapter::stat_server::StatServer;
use metrics_adapter::watches::ready_pods::ReadyPods;
use metrics_adapter::watches::stored_learning::StoredLearning;
use metrics_adapter::watches::workloads::{Workload, WorkloadTable};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use tokio_util::sync::CancellationToken;

pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A running adapter, stopped when dropped.
pub(crate) struct Adapter {
    pub(crate) url: String,
    pub(crate) pods: ReadyPods,
    pub(crate) collector: Arc<Collector>,
    pub(crate) observations: Arc<Observations>,
    pub(crate) metrics: Metrics,
    pub(crate) api: Arc<Api>,
    pub(crate) stop: CancellationToken,
    _table: watch::Sender<Arc<WorkloadTable>>,
    _tasks: JoinSet<()>,
}

/// The configuration of an adapter.
pub(crate) struct Setup {
    pub(crate) listener: TcpListener,
    pub(crate) guard: TokenGuard,
    pub(crate) leadership: Leadership,
    pub(crate) forwarder: LeaderForwarder,
    pub(crate) workload: Workload,
}

/// A reviewer that allows everything.
#[derive(Debug)]
struct AllowAll;

impl Reviewer for AllowAll {
    fn token<'a>(
        &'a self,
        _: &'a str,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        Box::pin(async { Ok(None) })
    }

    fn access(&self, _: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        Box::pin(async { Ok(Access::Allowed) })
    }
}

// === impl Setup ===

impl Setup {
    /// For a single adapter without authentication.
    pub(crate) async fn alone() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            guard: TokenGuard::allow_all(),
            leadership: Leadership::always_leading(),
            forwarder: LeaderForwarder::alone(),
            workload: workload(),
        }
    }
}

// === impl Adapter ===

impl Adapter {
    pub(crate) fn start(setup: Setup) -> Self {
        let Setup { listener, guard, leadership, forwarder, workload } = setup;
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let (table, workloads) = watch::channel(Arc::new(WorkloadTable::from_iter([workload])));
        let (collector, decisions) = (Arc::new(Collector::default()), Arc::new(DecisionStore::default()));
        let (pokes, poked) = Pokes::new(collector.clone(), decisions.clone(), workloads.clone());
        let (history, pods) = (Arc::new(DecisionHistory::default()), ReadyPods::default());
        let observations = Arc::new(Observations::default());
        let resources = Arc::new(ResourceReadings::default());
        let pod_reports = Arc::new(PodReports::default());
        pods.apply(Event::Init);
        pods.apply(Event::InitDone);
        let mut tasks = JoinSet::new();
        let scraper = StatsScraper {
            collector: collector.clone(),
            observations: observations.clone(),
            pod_reports: pod_reports.clone(),
            busy_pods: Arc::default(),
            resources: resources.clone(),
            pods: pods.clone(),
            client: ScrapeClient::new(None),
            workloads: workloads.clone(),
            metrics: metrics.clone(),
        };
        let scraped = pokes.clone();
        tasks.spawn(scrape_loop::run(scraper, move |key| scraped.on_scrape(key)));
        let multi_scaler = MultiScaler {
            collector: collector.clone(),
            pods: pods.clone(),
            workloads: workloads.clone(),
            pokes: pokes.clone(),
            decisions: decisions.clone(),
            history: history.clone(),
            observations: observations.clone(),
            resources,
            stored_learning: StoredLearning::default(),
            leadership,
            metrics: metrics.clone(),
        };
        tasks.spawn(multi_scaler.run(poked));
        let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxy::default()));
        let auth = Auth::new(front_proxy, Arc::new(AllowAll), metrics.reviews.clone());
        let values = MetricValues {
            collector: collector.clone(),
            decisions: decisions.clone(),
            history: history.clone(),
            pods: pods.clone(),
            workloads,
        };
        let api = Api::new(values, forwarder, auth, Readiness::default(), metrics.clone(), false);
        let stop = CancellationToken::new();
        let url = format!("ws://{}", listener.local_addr().unwrap());
        let server =
            StatServer::new(collector.clone(), decisions, pokes, metrics.clone(), guard, stop.clone())
                .with_pod_reports(pod_reports)
                .with_history(history)
                .with_name("metrics-adapter-1");
        tasks.spawn(server.serve(listener, api.clone()));
        Self { url, pods, collector, observations, metrics, api, stop, _table: table, _tasks: tasks }
    }

    pub(crate) async fn connect(&self, path: &str) -> Socket {
        connect_async(format!("{}{path}", self.url)).await.unwrap().0
    }

    /// Sends a request to the API; the body is a JSON string if it is not JSON.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).body(()).unwrap();
        let response = self.api.serve(&request.into_parts().0, &PeerCertificates::default()).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        (status, serde_json::from_slice(&body).unwrap_or_else(|_| text()))
    }
}

/// Reviews tokens by an API server where a token is the name of its service account,
/// `NAMESPACE:NAME`.
pub(crate) fn guard_by_names() -> TokenGuard {
    let cluster = FakeApi::default();
    cluster.respond_to_creations("/apis/authentication.k8s.io/v1/tokenreviews", |review| {
        let field = |path| review.pointer(path).cloned().unwrap_or_default();
        let name = format!("system:serviceaccount:{}", field("/spec/token").as_str().unwrap());
        json!({"spec": {"token": ""}, "status": {
            "authenticated": true, "user": {"username": name}, "audiences": field("/spec/audiences"),
        }})
    });
    let reviewer = Arc::new(KubernetesReviewer::new(cluster.client()));
    TokenGuard::new(reviewer, "rouse-system", STATS_AUDIENCE)
}

pub(crate) fn key() -> Key {
    Key::new("shop", "web")
}

pub(crate) fn workload() -> Workload {
    Workload {
        key: key(),
        service: "web".to_owned(),
        selector: Selector::parse("app=web").unwrap(),
        rank: OwnershipRank::LAST,
        target_selector: None,
        sidecar: SidecarMode::Required,
        bypassed: false,
        windows: WindowSpec {
            stable: Duration::from_secs(60),
            panic: Duration::from_secs(6),
            aggregation: Aggregation::Linear,
        },
        measure: MetricName::Concurrency,
        target_milli: 1000,
        spec: DeciderSpec { target: 1.0, ..DeciderSpec::default() },
        container_concurrency: None,
        smallest_size: 0,
        schedule: None,
        kept: None,
        learning: None,
    }
}

/// A push of an activator that holds this many requests.
pub(crate) fn push(concurrency: f64) -> Message {
    let stat = Stat {
        average_concurrent_requests: concurrency,
        request_count: concurrency,
        timestamp: component_base::clock::unix_seconds(),
        ..Stat::default()
    };
    let messages = vec![StatMessage { key: key(), stat }];
    let push =
        ActivatorReport { activator: "activator-1".to_owned(), messages, ..ActivatorReport::default() };
    Message::text(serde_json::to_string(&push).unwrap())
}

/// The next event of a decision stream.
pub(crate) async fn event(socket: &mut Socket) -> DecisionEvent {
    let deadline = Duration::from_secs(5);
    loop {
        match tokio::time::timeout(deadline, socket.next()).await.unwrap().unwrap().unwrap() {
            Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}
