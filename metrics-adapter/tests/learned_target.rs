//! The learned target in virtual time: a fluid model of pods with a knee, and the arithmetic of a
//! stock HPA, around a whole adapter.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::quantity::parse_milli;
use autoscaler::findings::hpa::{HpaAcceptance, accept};
use autoscaler::scaling::decider::DeciderSpec;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{AutoscalerConfig, LearnTarget, Settings};
use autoscaler::stats::Stat;
use autoscaler::stats::collection::ScrapeResult;
use http::StatusCode;
use kube::runtime::watcher::Event;
use learning::{AppSecond, MissBudget, PodSecond, WorkloadLearning};
use metrics_adapter::watches::workloads::Workload;
use serde_json::{Value, json};
use support::{Adapter, Setup, key};

const METRICS: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop";
/// Requests that a pod serves at a time; more wait in the app.
const SERVERS: f64 = 8.0;
/// Seconds of a request on a server.
const SERVICE: f64 = 0.1;
/// Concurrent requests of clients that send the next one after each response.
const LOAD: f64 = 160.0;
/// Period and tolerance of the HPA.
const HPA_PERIOD: usize = 15;
const HPA_TOLERANCE: f64 = 0.1;

/// A workload of pods with a knee, with its HPA.
struct Loop {
    adapter: Adapter,
    /// What the HPA scales on.
    metric: &'static str,
    /// Its `averageValue`.
    target_milli: i64,
    pods: usize,
    second: usize,
}

impl Loop {
    async fn start(mode: LearnTarget, user_target: f64) -> Self {
        let (settings, errors) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
        assert_eq!(errors, []);
        let target = MetricTarget::of(user_target, MetricName::Concurrency, 0, &settings);
        let mut learning =
            WorkloadLearning::new(&settings, MetricName::Concurrency, target, 0, true).unwrap();
        learning.mode = mode;
        Self::of(&settings, target, learning, ("concurrency", target.milli())).await
    }

    /// The workload of an HPA that names no number, as the zero-scaler and the adapter read it.
    async fn without_number() -> Self {
        let hpa = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 100,
                "metrics": [{"type": "External", "external": {
                    "metric": {"name": "desired-replicas", "selector": {"matchLabels": {"service": "web"}}},
                    "target": {"type": "AverageValue", "averageValue": "1"},
                }}],
            },
        });
        let config = AutoscalerConfig::default();
        let accepted = accept(&serde_json::from_value(hpa).unwrap(), [], &config, false);
        let HpaAcceptance::Accepted(accepted) = accepted else { panic!("the HPA is not followed") };
        let spec = &accepted.spec;
        let (settings, errors) = spec.settings(&config, &accepted.annotations);
        assert_eq!(errors, []);
        let target = spec.target(None, &settings).unwrap();
        let (metric, given) = (spec.metric_name(&settings), spec.names_target(&settings));
        let learning = WorkloadLearning::new(&settings, metric, target, 0, given).unwrap();
        Self::of(&settings, target, learning, ("desired-replicas", 1000)).await
    }

    async fn of(
        settings: &Settings,
        target: MetricTarget,
        mut learning: WorkloadLearning,
        (metric, target_milli): (&'static str, i64),
    ) -> Self {
        learning.spec.objective = Some(MissBudget(0.05));
        let workload = Workload {
            spec: DeciderSpec::new(settings, target),
            target_milli: target.milli(),
            learning: Some(learning),
            ..support::workload()
        };
        let adapter = Adapter::start(Setup { workload, ..Setup::alone().await });
        let mut this = Self { adapter, metric, target_milli, pods: 0, second: 0 };
        this.scale((LOAD / target.target).ceil() as usize);
        this
    }

    /// Adds or removes pods. They have no address, so that nothing scrapes them.
    fn scale(&mut self, pods: usize) {
        let pod = |index: usize| {
            serde_json::from_value(json!({
                "metadata": {"name": format!("web-{index}"), "namespace": "shop", "labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "web:1"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap()
        };
        for index in self.pods..pods {
            self.adapter.pods.apply(Event::Apply(pod(index)));
        }
        for index in pods..self.pods {
            self.adapter.pods.apply(Event::Delete(pod(index)));
        }
        self.pods = pods;
    }

    /// One second of a pod. Loads differ between the pods, and around the mean.
    fn pod_second(&self, index: usize) -> PodSecond {
        let spread = 0.7 + 0.6 * ((index * 7 + self.second * 3) % 10) as f64 / 10.0;
        let concurrency = LOAD / self.pods as f64 * spread;
        let time = SERVICE * (concurrency / SERVERS).max(1.0);
        let completions = concurrency / time;
        // Exponential times against an objective of 0.3 s, of which the mean misses a fifth.
        let misses = completions * (-0.3 / time).exp() * 0.2;
        let app = AppSecond { completions, seconds: completions * time, misses, errors: 0.0 };
        let (age, arrivals) = (Duration::from_secs(600), completions);
        PodSecond { age, concurrency, arrivals, app: Some(app), ..PodSecond::default() }
    }

    async fn run(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.second += 1;
            let now = self.adapter.collector.clock().now();
            let total = Stat { average_concurrent_requests: LOAD, ..Stat::default() };
            let round = ScrapeResult::Complete { total, idle: false };
            self.adapter.collector.record_scrape(&key(), now, &round);
            let pods = (0..self.pods).map(|index| self.pod_second(index)).collect();
            self.adapter.observations.record(&key(), now, pods);
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.second.is_multiple_of(HPA_PERIOD) {
                self.sync_hpa().await;
            }
        }
    }

    async fn sync_hpa(&mut self) {
        let path = format!("{METRICS}/{}?labelSelector=service%3Dweb", self.metric);
        let (status, body) = self.adapter.get(&path).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let value = parse_milli(body["items"][0]["value"].as_str().unwrap()).unwrap() as f64;
        let target = self.target_milli as f64;
        if (value / (target * self.pods as f64) - 1.0).abs() > HPA_TOLERANCE {
            self.scale((value / target).ceil() as usize);
        }
    }

    async fn why(&self) -> Value {
        self.adapter.get("/why/shop/web").await.1["learning"].clone()
    }
}

fn learned(why: &Value) -> f64 {
    why["learned"]["target"].as_f64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn applied_target_ends_near_the_knee_and_the_hpa_follows() {
    for user_target in [2.0, 32.0] {
        let mut workload = Loop::start(LearnTarget::Apply, user_target).await;
        workload.run(1800).await;
        let why = workload.why().await;
        let target = learned(&why);
        assert!((SERVERS * 0.75..=SERVERS * 2.5).contains(&target), "{user_target}: {why}");
        assert_eq!(why["targetInForce"], target);
        assert!(!why["lastChanges"].as_array().unwrap().is_empty(), "{why}");
        let wanted = LOAD / target;
        assert!((wanted * 0.88..wanted * 1.12 + 1.0).contains(&(workload.pods as f64)), "{}", workload.pods);
    }
}

#[tokio::test(start_paused = true)]
async fn hpa_without_a_number_gets_a_target_near_the_knee() {
    let mut workload = Loop::without_number().await;
    workload.run(5).await;
    assert_eq!(workload.why().await["targetInForce"], 2.0, "it begins low");
    workload.run(1795).await;
    let why = workload.why().await;
    let target = learned(&why);
    assert!((SERVERS * 0.75..=SERVERS * 2.5).contains(&target), "{why}");
    assert_eq!((&why["mode"], &why["targetInForce"]), (&json!("Apply"), &json!(target)));
    let wanted = LOAD / target;
    assert!((wanted * 0.88..wanted * 1.12 + 1.0).contains(&(workload.pods as f64)), "{}", workload.pods);
    let unloaded = why["learned"]["basis"]["unloadedMilliseconds"].as_f64().unwrap();
    assert!((unloaded / (SERVICE * 1000.0) - 1.0).abs() < 0.1, "{why}");
}

#[tokio::test(start_paused = true)]
async fn recommended_target_changes_no_size() {
    let mut workload = Loop::start(LearnTarget::Recommend, 32.0).await;
    workload.run(900).await;
    let why = workload.why().await;
    assert!(learned(&why) < 32.0, "{why}");
    assert_eq!((why["targetInForce"].as_f64(), workload.pods), (Some(32.0), 5));
    let evidence = why["learned"]["evidence"].as_str().unwrap();
    let off = "(metrics-server) is absent or fails: the rules for them are off";
    assert!(evidence.ends_with(off), "{evidence}");
}

#[tokio::test(start_paused = true)]
async fn missing_seconds_leave_the_applied_target_as_it_is() {
    let mut workload = Loop::start(LearnTarget::Apply, 32.0).await;
    workload.run(400).await;
    let before = learned(&workload.why().await);
    assert!(before < 32.0);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let why = workload.why().await;
    assert_eq!((learned(&why), why["learned"]["phase"].as_str()), (before, Some("Frozen(Gap)")));
}
