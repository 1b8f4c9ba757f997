//! CPU and memory of pods from a `metrics.k8s.io` that is present, absent, broken or hostile.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{AutoscalerConfig, Settings};
use component_base::kubernetes::lease::Leadership;
use fake_api::{FakeApi, Outage};
use http::StatusCode;
use kube::runtime::watcher::Event;
use learning::{PodSecond, WorkloadLearning};
use metrics_adapter::learning::resources::resource_reader::ResourceReader;
use metrics_adapter::learning::resources::resource_readings::{
    ResourceReadings, ResourceStatus, ResourceUsage,
};
use metrics_adapter::metrics::{Metrics, ResourceMetrics};
use metrics_adapter::watches::ready_pods::ReadyPods;
use metrics_adapter::watches::workloads::{Workload, WorkloadTable};
use prometheus::Registry;
use serde_json::{Value, json};
use support::key;
use tokio::sync::watch;
use tokio::task::JoinSet;

const PATH: &str = "/apis/metrics.k8s.io/v1beta1/pods";
const UNAVAILABLE: ResourceStatus = ResourceStatus::Unavailable;

/// A reader beside a cluster with the pods `web-0` (256 MiB, 2 CPUs) and `api-0` (no limits).
struct Reader {
    api: FakeApi,
    pods: ReadyPods,
    readings: Arc<ResourceReadings>,
    metrics: ResourceMetrics,
    _table: watch::Sender<Arc<WorkloadTable>>,
    _tasks: JoinSet<()>,
}

impl Reader {
    /// Reads for these workloads.
    fn start(api: FakeApi, leadership: Leadership, workloads: Vec<Workload>) -> Self {
        let (table, workloads) = watch::channel(Arc::new(WorkloadTable::from_iter(workloads)));
        let (pods, readings) = (ReadyPods::default(), Arc::<ResourceReadings>::default());
        pods.apply(Event::Init);
        pods.apply(Event::InitDone);
        put_pod(&pods, "web-0", "10.0.0.1", json!({"memory": "256Mi", "cpu": "2"}));
        put_pod(&pods, "api-0", "10.0.0.2", json!({}));
        let metrics = Metrics::register(&Registry::new()).unwrap().resources;
        let reader = ResourceReader {
            client: api.client(),
            pods: pods.clone(),
            workloads,
            readings: readings.clone(),
            leadership,
            metrics: metrics.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(reader.run());
        Self { api, pods, readings, metrics, _table: table, _tasks: tasks }
    }

    /// The leader's, for the workload `web`.
    fn of_web(api: FakeApi) -> Self {
        Self::start(api, Leadership::always_leading(), vec![workload("web", learning())])
    }

    fn status(&self) -> ResourceStatus {
        self.readings.status(&key())
    }

    /// The memory in the next second that is scraped of a pod.
    fn take(&self, name: &str) -> Option<f64> {
        let pod = self.pods.get("shop", name).unwrap();
        self.readings.add_to(PodSecond::default(), &pod).memory
    }

    fn requests(&self) -> Vec<String> {
        self.api.requests()
    }

    /// Reads that succeeded, reads that failed, and items that could not be decoded.
    fn counts(&self) -> (u64, u64, u64) {
        let ResourceMetrics { reads, invalid, .. } = &self.metrics;
        (reads.ok.get(), reads.failed.get(), invalid.get())
    }
}

fn put_pod(pods: &ReadyPods, name: &str, ip: &str, limits: Value) {
    let app = name.split('-').next();
    let running = json!({
        "name": "app", "image": "a", "imageID": "a", "ready": true, "restartCount": 0,
        "state": {"running": {"startedAt": "2026-01-01T00:00:02Z"}},
    });
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"containers": [{"name": "app", "image": "a", "resources": {"limits": limits}}]},
        "status": {
            "phase": "Running", "podIP": ip, "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [running],
        },
    });
    pods.apply(Event::Apply(serde_json::from_value(pod).unwrap()));
}

fn workload(name: &str, learning: Option<WorkloadLearning>) -> Workload {
    let selector = autoscaler::contract::selector::Selector::parse(&format!("app={name}")).unwrap();
    Workload { key: Key::new("shop", name), selector, learning, ..support::workload() }
}

fn learning() -> Option<WorkloadLearning> {
    let (settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
    let measure = MetricName::Concurrency;
    WorkloadLearning::new(&settings, measure, MetricTarget::of(20.0, measure, 0, &settings), 0, true)
}

/// The item of a pod as metrics-server sends it, measured a few seconds ago.
fn item(name: &str, memory: &str) -> Value {
    let measured = component_base::clock::unix_seconds() - 5;
    let timestamp = jiff::Timestamp::from_second(measured).unwrap().to_string();
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "timestamp": timestamp, "window": "15.213s",
        "containers": [
            {"name": "queue-proxy", "usage": {"cpu": "2", "memory": "1Gi"}},
            {"name": "app", "usage": {"cpu": "500000000n", "memory": memory}},
        ],
    })
}

fn list(items: &[Value]) -> String {
    json!({
        "kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items,
    })
    .to_string()
}

fn respond(api: &FakeApi, items: &[Value]) {
    api.respond_to_reads(PATH, StatusCode::OK, list(items));
}

/// An aggregated API without a backend (503), or a cluster without that API (404).
fn reject(api: &FakeApi, status: u16) {
    let body = json!({"kind": "Status", "status": "Failure", "code": status}).to_string();
    api.respond_to_reads(PATH, StatusCode::from_u16(status).unwrap(), body);
}

fn available(memory: f64) -> ResourceStatus {
    ResourceStatus::Available(ResourceUsage { memory: Some(memory), cpu: Some(0.25) })
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn each_reading_reaches_the_learner_once_and_the_evidence() {
    let api = FakeApi::default();
    respond(&api, &[item("web-0", "64Mi"), item("api-0", "64Mi"), item("other-0", "64Mi")]);
    let reader = Reader::of_web(api.clone());
    assert_eq!((reader.status(), reader.take("web-0")), (UNAVAILABLE, None));
    seconds(1).await;
    assert_eq!(reader.status(), available(0.25));
    assert_eq!((reader.take("web-0"), reader.take("web-0")), (Some(0.25), None));
    assert_eq!(reader.take("api-0"), None, "it has no limit");
    respond(&api, &[item("web-0", "128Mi")]);
    seconds(15).await;
    assert_eq!(reader.status(), available(0.5));
    assert_eq!((reader.counts(), reader.metrics.available.get()), ((2, 0, 0), 1));
}

#[tokio::test(start_paused = true)]
async fn one_request_each_15_s_serves_any_number_of_workloads() {
    let api = FakeApi::default();
    respond(&api, &[item("web-0", "64Mi")]);
    let many = (0..10_000).map(|index| workload(&format!("web{index}"), learning())).collect();
    let reader = Reader::start(api, Leadership::always_leading(), many);
    seconds(151).await;
    assert_eq!(reader.requests(), vec![format!("GET {PATH}"); 11]);
}

#[tokio::test(start_paused = true)]
async fn absent_api_turns_the_rules_off_and_is_found_when_it_comes() {
    for status in [404, 503, 403, 500, 301] {
        let api = FakeApi::default();
        reject(&api, status);
        let reader = Reader::of_web(api.clone());
        seconds(600).await;
        assert_eq!((reader.status(), reader.take("web-0")), (UNAVAILABLE, None), "{status}");
        assert_eq!(reader.metrics.available.get(), 0);
        // After 30, 60 and 120 s, and then each 120 s.
        assert_eq!((reader.requests().len(), reader.counts()), (7, (0, 7, 0)), "{status}");
        respond(&api, &[item("web-0", "64Mi")]);
        seconds(120).await;
        assert_eq!((reader.status(), reader.metrics.available.get()), (available(0.25), 1), "{status}");
        seconds(25).await;
        assert_eq!(reader.requests().len(), 11, "each 15 s again");
        reject(&api, status);
        seconds(60).await;
        assert_eq!(reader.status(), available(0.25), "one failure changes nothing yet");
        seconds(90).await;
        assert_eq!(reader.status(), UNAVAILABLE, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn list_that_is_no_list_fails_and_stores_nothing() {
    let valid = list(&[item("web-0", "64Mi")]);
    let truncated = &valid[..valid.len() - 1];
    let other = json!({"items": [{"metadata": {"name": "web-0"}}, 7, null, {"a": []}]}).to_string();
    for body in ["<html>login</html>", "", "null", "[]", truncated, &other] {
        let api = FakeApi::default();
        api.respond_to_reads(PATH, StatusCode::OK, body.to_owned());
        let reader = Reader::of_web(api.clone());
        seconds(10).await;
        assert_eq!((reader.status(), reader.take("web-0")), (UNAVAILABLE, None), "{body}");
        assert_eq!(reader.counts().1, 1, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_items_are_skipped_and_the_others_count() {
    let api = FakeApi::default();
    let mut large = item("web-0", "200Mi");
    large["metadata"]["labels"]["large"] = "x".repeat(1 << 20).into();
    let mut deep = json!(0);
    for _ in 0..1000 {
        deep = json!([deep]);
    }
    let nested = json!({"metadata": {"name": "web-0", "namespace": "shop", "x": deep}});
    let negative = item("web-0", "much");
    respond(&api, &[large, nested, negative, item("web-0", "64Mi"), item("web-9", "64Mi")]);
    let reader = Reader::of_web(api);
    seconds(10).await;
    assert_eq!((reader.status(), reader.counts()), (available(0.25), (1, 0, 3)));
}

/// An endless response must cost neither memory nor another read's time.
#[tokio::test(start_paused = true)]
async fn too_large_list_or_no_response_ends_the_read() {
    let api = FakeApi::default();
    let mut body = list(&[item("web-0", "64Mi")]).into_bytes();
    body.resize(129 << 20, b' ');
    api.respond_to_reads(PATH, StatusCode::OK, body);
    let reader = Reader::of_web(api.clone());
    seconds(10).await;
    assert_eq!((reader.status(), reader.counts()), (UNAVAILABLE, (0, 1, 0)));
    api.set_outage(Some(Outage::Hanging));
    seconds(60).await;
    assert_eq!(reader.counts(), (0, 2, 0));
    api.set_outage(None);
    respond(&api, &[item("web-0", "64Mi")]);
    seconds(60).await;
    assert_eq!((reader.status(), reader.counts()), (available(0.25), (1, 2, 0)));
}

#[tokio::test(start_paused = true)]
async fn only_the_leader_reads_and_only_for_workloads_that_learn() {
    let follower = Leadership::following("other");
    let reader = Reader::start(FakeApi::default(), follower, vec![workload("web", learning())]);
    let off = Reader::start(FakeApi::default(), Leadership::always_leading(), vec![workload("web", None)]);
    seconds(60).await;
    assert_eq!((reader.requests(), off.requests()), (Vec::new(), Vec::new()));
    assert_eq!((reader.status(), off.status()), (UNAVAILABLE, UNAVAILABLE));
}
