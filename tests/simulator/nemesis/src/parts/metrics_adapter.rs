//! A metrics-adapter process: the real windows, deciders, decision stream and metrics API, without
//! sockets. It leads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arc_swap::ArcSwap;
use autoscaler::Key;
use autoscaler::contract::quantity::parse_milli;
use autoscaler::contract::{ACTIVATOR_LEASES, CARRIED_WORKLOADS};
use autoscaler::stats::collection::ScrapeResult;
use autoscaler::stats::reporters::{LOST_AFTER, PublishedWorkloads};
use autoscaler::stats::{ActivatorReport, CarriedWorkloads, Stat};
use component_base::auth::{Access, ReviewError, Reviewer, User};
use component_base::kubernetes::lease::Leadership;
use component_base::kubernetes::{watch_lease_annotation, watch_members};
use component_base::readiness::Readiness;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::runtime::watcher::Event;
use metrics_adapter::collection::collector::{Collector, ConnectedActivator, PushOutcome};
use metrics_adapter::collection::pod_reports::PodReports;
use metrics_adapter::collection::scrape_client::ScrapeClient;
use metrics_adapter::collection::scrape_loop;
use metrics_adapter::collection::stats_scraper::StatsScraper;
use metrics_adapter::collection::window_clock::WindowClock;
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
use metrics_adapter::watches::metric_watch::MetricWatch;
use metrics_adapter::watches::ready_pods::ReadyPods;
use metrics_adapter::watches::workloads::{WorkloadTable, WorkloadsReceiver};
use prometheus::Registry;
use serde_json::Value;
use simulator::hpa::{MetricValue, NoMetric};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::adapter_wall;
use crate::cluster::{Cluster, WorkloadKind};
use crate::network::ProcessNetwork;
use crate::requests::Requests;

const METRIC: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/concurrency?labelSelector=service%3Dweb";

/// A running process. It crashes when this is dropped.
pub struct MetricsAdapter {
    pub network: ProcessNetwork,
    pub decisions: Arc<DecisionStore>,
    collector: Arc<Collector>,
    pokes: Pokes,
    pods: ReadyPods,
    api: Arc<Api>,
    workloads: WorkloadsReceiver,
    listed: watch::Receiver<BTreeSet<(String, bool)>>,
    carried: watch::Receiver<Option<PublishedWorkloads>>,
    /// The version of the pods that it has.
    pods_version: Option<usize>,
    /// The push connections, by activator, and their last frames.
    connections: BTreeMap<usize, (ConnectedActivator, Instant)>,
    _tasks: JoinSet<()>,
}

/// A reviewer that allows everything.
#[derive(Debug)]
struct AllowAll;

// === impl MetricsAdapter ===

impl MetricsAdapter {
    pub fn start(network: ProcessNetwork, kind: WorkloadKind) -> Self {
        let (client, metrics) = (network.client(), Metrics::register(&Registry::new()).unwrap());
        let (table, workloads) = watch::channel(Arc::new(WorkloadTable::default()));
        let collector = Arc::new(Collector::new(WindowClock::by(adapter_wall)));
        let decisions = Arc::new(DecisionStore::default());
        let (pokes, poked) = Pokes::new(collector.clone(), decisions.clone(), workloads.clone());
        let (history, pods) = (Arc::new(DecisionHistory::default()), ReadyPods::default());
        let (observations, resources) =
            (Arc::new(Observations::default()), Arc::new(ResourceReadings::default()));
        let mut tasks = JoinSet::new();
        let metric_watch =
            MetricWatch::new(&client, "rouse-system", &Readiness::default(), table, metrics.clone());
        let stored_learning = metric_watch.stored_learning();
        tasks.spawn(metric_watch.run());
        let errors = &metrics.decode_errors;
        let (listed, follow) = watch_members(client.clone(), "rouse-system", "activator", errors);
        tasks.spawn(follow);
        let (carried, follow) = watch_lease_annotation(
            client,
            "rouse-system",
            ACTIVATOR_LEASES,
            CARRIED_WORKLOADS,
            CarriedWorkloads::parse,
            errors,
        );
        tasks.spawn(follow);
        let scraper = StatsScraper {
            collector: collector.clone(),
            observations: observations.clone(),
            pod_reports: Arc::new(PodReports::default()),
            busy_pods: Arc::default(),
            resources: resources.clone(),
            pods: pods.clone(),
            client: ScrapeClient::new(None),
            workloads: workloads.clone(),
            metrics: metrics.clone(),
        };
        let scraped = pokes.clone();
        if !kind.sidecars {
            // The simulated sidecars have no port to read.
            tasks.spawn(scrape_loop::run(scraper, move |key| scraped.on_scrape(key)));
        }
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
            leadership: Leadership::always_leading(),
            metrics: metrics.clone(),
        };
        tasks.spawn(multi_scaler.run(poked));
        let values = MetricValues {
            collector: collector.clone(),
            decisions: decisions.clone(),
            history,
            pods: pods.clone(),
            workloads: workloads.clone(),
        };
        let front_proxy = Arc::new(ArcSwap::from_pointee(FrontProxy::default()));
        let auth = Auth::new(front_proxy, Arc::new(AllowAll), metrics.reviews.clone());
        let api = Api::new(values, LeaderForwarder::alone(), auth, Readiness::default(), metrics, false);
        let connections = BTreeMap::new();
        Self {
            network,
            decisions,
            collector,
            pokes,
            pods,
            api,
            workloads,
            listed,
            carried,
            pods_version: None,
            connections,
            _tasks: tasks,
        }
    }

    /// Takes a frame of an activator, over its connection or a new one.
    pub fn receive(&mut self, number: usize, report: &ActivatorReport) {
        let mut is_whole = true;
        for message in &report.messages {
            match self.collector.record_push(message) {
                PushOutcome::Recorded => self.pokes.on_push(&message.key),
                PushOutcome::UnknownWorkload => {}
                PushOutcome::Implausible => is_whole = false,
            }
        }
        let connect = || (self.collector.activator_connected(), Instant::now());
        let (connection, last_frame) = self.connections.entry(number).or_insert_with(connect);
        *last_frame = Instant::now();
        connection.frame(report, is_whole);
    }

    /// The connection of an activator broke.
    pub fn disconnected(&mut self, number: usize) {
        self.connections.remove(&number);
    }

    /// Ends silent connections, and passes on which activators do not report.
    pub fn follow_activators(&mut self) {
        self.connections.retain(|_, (_, last_frame)| last_frame.elapsed() <= LOST_AFTER);
        let carried = self.carried.borrow_and_update().clone();
        carried.into_iter().for_each(|it| self.collector.publish_carried(it));
        self.collector.list_activators(self.listed.borrow_and_update().iter().cloned());
        self.decisions.set_missing_reports(self.collector.missing_reports());
    }

    /// Takes the pods as they are now.
    pub fn list_pods(&mut self, cluster: &Cluster) {
        if self.pods_version.replace(cluster.pods_version) == Some(cluster.pods_version) {
            return;
        }
        let objects = cluster.pod_objects();
        let events = || {
            let pods = objects.iter().map(|object| serde_json::from_value(object.clone()).unwrap());
            [Event::Init].into_iter().chain(pods.map(Event::InitApply)).chain([Event::InitDone])
        };
        if cluster.kind.sidecars {
            events().for_each(|event| self.pods.apply(event));
        } else {
            [Event::Init, Event::InitDone].into_iter().for_each(|event| self.pods.apply(event));
            events().for_each(|event| self.pods.apply_unlabelled("shop".to_owned(), event));
        }
    }

    /// Records the second that the sidecars of all pods report; without `readable`, none of them
    /// can be read.
    pub fn scrape(&self, cluster: &Cluster, requests: &Requests, readable: bool) {
        let mut total = Stat::default();
        let mut pods = 0;
        for pod in cluster.ready_pods() {
            pods += 1;
            let (all, proxied) = requests.of_pod(pod.number);
            total.average_concurrent_requests += all.requests as f64;
            total.average_proxied_concurrent_requests += proxied.requests as f64;
            total.request_count += all.arrived as f64;
            total.proxied_request_count += proxied.arrived as f64;
        }
        let idle = total.is_idle();
        let result = match pods {
            0 => ScrapeResult::NoPods,
            _ if readable => ScrapeResult::Complete { total, idle },
            _ => ScrapeResult::Incomplete,
        };
        let key = Key::new("shop", "web");
        let Some(workload) = self.workloads.borrow().get(&key).cloned() else { return };
        self.collector.create_or_update(&key, workload.windows);
        self.collector.record_scrape(&key, self.collector.clock().now(), &result);
        self.pokes.on_scrape(&key);
    }

    /// The metric that the HPA controller reads.
    pub async fn metric(&self) -> MetricValue {
        let (request, ()) = Request::get(METRIC).body(()).unwrap().into_parts();
        let response = self.api.serve(&request, &PeerCertificates::default()).await;
        if response.status() != StatusCode::OK {
            return Err(NoMetric);
        }
        let body = response.into_body().collect().await.map_err(|_| NoMetric)?.to_bytes();
        let list: Value = serde_json::from_slice(&body).map_err(|_| NoMetric)?;
        parse_milli(list["items"][0]["value"].as_str().unwrap_or_default()).map_err(|_| NoMetric)
    }
}

impl Drop for MetricsAdapter {
    fn drop(&mut self) {
        self.network.kill();
    }
}

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
