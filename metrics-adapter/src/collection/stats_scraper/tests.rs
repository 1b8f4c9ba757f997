//! Rounds against pods on loopback addresses.

use std::collections::BTreeMap;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::{AutoscalerConfig, LatencyObjective, LearnTarget, Settings, SidecarMode};
use autoscaler::stats::PodStat;
use kube::runtime::watcher::Event;
use learning::{CpuReading, WorkloadLearning};

use super::*;
use crate::learning::resources::resource_readings::ResourceUsage;

const OBJECTIVE: Duration = Duration::from_millis(200);

fn pod(name: &str, started: u64) -> Arc<Pod> {
    let object: k8s_openapi::api::core::v1::Pod =
        serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap();
    let mut pod = Pod::from(&object);
    pod.started = Some(Duration::from_secs(started));
    pod.ready_since = pod.started;
    Arc::new(pod)
}

#[test]
fn samples_pods_that_ran_for_a_stable_window_first() {
    let pods: Vec<_> = (0..10).map(|i| pod(&i.to_string(), if i < 4 { 100 } else { 500 })).collect();
    let order = candidates(pods, 7, Duration::from_secs(510), Duration::from_secs(60));
    let old: Vec<_> = order.iter().take(4).map(|pod| pod.started.unwrap().as_secs()).collect();
    assert_eq!(old, [100; 4]);
    assert_eq!(order.len(), 10);
}

/// A scraper and `ready` pods on addresses of their own; the first `answering` report 4
/// requests each.
async fn loopback(ready: u8, answering: u8) -> (StatsScraper, Vec<Arc<Pod>>) {
    loaded(ready, answering, |_| 4.0).await
}

/// Pods that all get the requests of the Service.
fn counted(pods: &[Arc<Pod>]) -> PodsOfWorkload {
    PodsOfWorkload { counted: pods.to_vec(), others: Vec::new() }
}

/// The same with `load(index)` requests each.
async fn loaded(ready: u8, answering: u8, load: fn(u8) -> f64) -> (StatsScraper, Vec<Arc<Pod>>) {
    let address = |i: u8| format!("127.0.0.{}", i + 1);
    let mut port = 0;
    for i in 0..answering {
        let listener = tokio::net::TcpListener::bind((address(i), port)).await.unwrap();
        port = listener.local_addr().unwrap().port();
        let stat = Stat { average_concurrent_requests: load(i), ..Stat::default() };
        let handler = axum::routing::get(|| async { axum::Json(stat) });
        let router = axum::Router::new().route("/stat", handler);
        tokio::spawn(async move { axum::serve(listener, router).await });
    }
    let scraper = StatsScraper {
        collector: Arc::default(),
        observations: Arc::default(),
        pod_reports: Arc::default(),
        busy_pods: Arc::default(),
        resources: Arc::default(),
        pods: ReadyPods::default(),
        client: ScrapeClient::new(None),
        workloads: tokio::sync::watch::channel(Arc::default()).1,
        metrics: Metrics::register(&prometheus::Registry::new()).unwrap(),
    };
    let at = |i: u8| {
        let mut pod = Pod::clone(&pod(&i.to_string(), 0));
        pod.ip = Some(address(i).parse().unwrap());
        pod.stats_port = port;
        Arc::new(pod)
    };
    (scraper, (0..ready).map(at).collect())
}

/// Rows of Knative's stats_scraper_test.go. Its rows about scraping through a Service (S2, S7,
/// S8, S10) have no counterpart, because pods are scraped by pod IP only: through a Service,
/// the scraper cannot choose the pod and would scrape some repeatedly. A mesh that blocks pod
/// IPs must exclude the stats port.
#[tokio::test]
async fn discards_second_on_shortfall() {
    let scrape = |ready, answering| async move {
        let (scraper, pods) = loopback(ready, answering).await;
        scraper
            .scrape(
                counted(&pods),
                RoundResult::default(),
                Duration::from_secs(1000),
                Duration::from_secs(60),
                None,
            )
            .await
            .map(|round| round.result)
    };
    let all = Stat { average_concurrent_requests: 20.0, ..Stat::default() };
    assert_eq!(
        scrape(5, 4).await.unwrap(),
        ScrapeResult::Complete { total: all, idle: false },
        "S5: the fifth pod replaces the failed one"
    );
    let shortfall = scrape(4, 3).await.unwrap_err(); // S6
    assert!(
        matches!(shortfall, Shortfall::Pods { answered: 3, wanted: 4, population: 4, .. }),
        "three stats are not extrapolated to four pods: {shortfall}"
    );
    assert_eq!(scrape(0, 0).await.unwrap(), ScrapeResult::NoPods, "S9");
}

#[tokio::test]
async fn does_not_extrapolate_one_hot_pod_to_many() {
    for _ in 0..5 {
        let (scraper, pods) = loaded(40, 40, |i| if i == 0 { 50.0 } else { 0.0 }).await;
        let hot = pods[0].stats_address();
        let (now, window) = (Duration::from_secs(1000), Duration::from_secs(60));
        let round = scraper.scrape(counted(&pods), RoundResult::default(), now, window, None).await.unwrap();
        let ScrapeResult::Complete { total, .. } = &round.result else { panic!("{round:?}") };
        // The first sample contains the hot pod or not; its load is not multiplied in either
        // case.
        assert!(total.average_concurrent_requests <= 55.0, "{total:?}");
        // A sample without it is idle, so more pods are read, and the hot pod may be among them.
        let found: Vec<_> = hot.into_iter().collect();
        assert!(round.next.outliers == found || total.average_concurrent_requests == 0.0, "{round:?}");

        // Once found, it is scraped in every round.
        let last = RoundResult { outliers: found.clone(), ..RoundResult::default() };
        let CompletedRound { result, next, .. } =
            scraper.scrape(counted(&pods), last, now, window, None).await.unwrap();
        let total = Stat { average_concurrent_requests: 50.0, ..Stat::default() };
        assert_eq!((result, next.outliers), (ScrapeResult::Complete { total, idle: false }, found));
    }
}

/// Whether each of these rounds, a second apart, finds the workload idle.
async fn idle_rounds(scraper: &StatsScraper, pods: &[Arc<Pod>], rounds: u64) -> Vec<bool> {
    let (mut last, mut found) = (RoundResult::default(), Vec::new());
    for round in 0..rounds {
        let now = Duration::from_secs(1000 + round);
        let scraped = scraper.scrape(counted(pods), last, now, Duration::from_secs(60), None).await;
        let CompletedRound { result, next, .. } = scraped.unwrap();
        found.push(matches!(result, ScrapeResult::Complete { idle: true, .. }));
        last = next;
    }
    found
}

/// A sample has 12 of the 50 pods.
#[tokio::test]
async fn one_long_request_among_many_pods_is_never_idle() {
    let (scraper, pods) = loaded(50, 50, |i| if i == 49 { 1.0 } else { 0.0 }).await;
    assert_eq!(idle_rounds(&scraper, &pods, 20).await, [false; 20]);
}

#[tokio::test]
async fn many_pods_are_idle_once_each_was_read() {
    let (scraper, pods) = loaded(50, 50, |_| 0.0).await;
    let idle = idle_rounds(&scraper, &pods, 6).await;
    assert_eq!((idle[0], &idle[4..]), (false, [true; 2].as_slice()), "{idle:?}");
    let (scraper, pods) = loaded(12, 12, |_| 0.0).await;
    assert_eq!(idle_rounds(&scraper, &pods, 2).await, [true; 2]);
}

#[tokio::test]
async fn request_on_a_pod_of_the_target_that_is_not_counted_keeps_workload_from_being_idle() {
    let (window, now) = (Duration::from_secs(60), Duration::from_secs(1000));
    for (busy, idle) in [(1.0, false), (0.0, true)] {
        let load = if busy > 0.0 { |i| f64::from(u8::from(i > 0)) } else { |_| 0.0 };
        let (scraper, mut counted) = loaded(3, 3, load).await;
        let others = counted.split_off(1);
        for counted in [counted, Vec::new()] {
            let pods = PodsOfWorkload { counted, others: others.clone() };
            let round = scraper.scrape(pods, RoundResult::default(), now, window, None).await.unwrap();
            assert_eq!(round.result, ScrapeResult::Complete { total: Stat::default(), idle });
        }
    }
}

#[tokio::test]
async fn counts_the_pods_of_the_service_and_not_the_others_of_the_target() {
    let (scraper, _) = loopback(0, 0).await;
    let pods = &scraper.pods;
    let pod = |name: &str, track: &str, ready: &str| {
        Event::Apply(serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web", "track": track}},
            "spec": {"containers": []},
            "status": {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": ready}]},
        })).unwrap())
    };
    pods.apply(Event::Init);
    pods.apply(Event::InitDone);
    for (name, track, ready) in [
        ("v1", "stable", "True"),
        ("v2", "canary", "True"),
        ("v2-b", "canary", "False"),
        ("v1-b", "stable", "False"),
    ] {
        pods.apply(pod(name, track, ready));
    }
    let selector = |text: &str| Selector::parse(text).unwrap();
    let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>();
    for (target, expected) in [(Some("app=web"), vec!["v2"]), (None, vec![])] {
        let workload = Workload {
            selector: selector("app=web,track=stable"),
            target_selector: target.map(selector),
            ..Workload::sample("web")
        };
        let found = scraper.ready_pods(&workload).unwrap();
        assert_eq!(
            (names(&found.counted), names(&found.others)),
            (vec!["v1".to_owned()], expected.iter().map(|name| (*name).to_owned()).collect())
        );
    }
}

#[tokio::test]
async fn pod_without_address_keeps_workload_from_being_idle() {
    let (scraper, mut pods) = loaded(50, 50, |_| 0.0).await;
    let mut undecodable = Pod::clone(&pods[0]);
    undecodable.ip = None;
    pods.push(Arc::new(undecodable));
    assert_eq!(idle_rounds(&scraper, &pods, 8).await, [false; 8]);
}

#[tokio::test]
async fn unread_pod_keeps_workload_from_being_idle() {
    let (scraper, pods) = loaded(20, 19, |_| 0.0).await;
    assert_eq!(idle_rounds(&scraper, &pods, 4).await, [false; 4]);
}

#[tokio::test]
async fn observes_each_pod_that_was_read_with_its_age_since_readiness() {
    let (scraper, mut pods) = loaded(8, 8, f64::from).await;
    let mut late = Pod::clone(&pods[0]);
    late.ready_since = Some(Duration::from_secs(990));
    pods[0] = Arc::new(late);
    let now = Duration::from_secs(1000);
    let last = RoundResult { outliers: vec![pods[0].stats_address().unwrap()], ..RoundResult::default() };
    let round = scraper.scrape(counted(&pods), last, now, Duration::from_secs(60), None).await.unwrap();
    let late = PodSecond { age: Duration::from_secs(10), ..PodSecond::default() };
    assert_eq!(round.seconds[0], late);
    assert!(round.seconds.len() >= 6, "an outlier and a sample: {round:?}");
    assert!(round.seconds.iter().skip(1).all(|pod| pod.age == now && pod.concurrency >= 1.0));
}

#[tokio::test]
async fn observes_each_reading_of_cpu_and_memory_in_one_second() {
    let (scraper, pods) = loaded(2, 2, f64::from).await;
    let usage = ResourceUsage { memory: Some(0.5), cpu: Some(0.3) };
    let (from, to) = (Duration::from_secs(975), Duration::from_secs(990));
    let cpu = CpuReading { share: 0.3, from, to };
    scraper.resources.put_pod_sample(pods[1].ip.unwrap(), Duration::from_secs(990), usage);
    let shares = async || {
        let (now, window) = (Duration::from_secs(1000), Duration::from_secs(60));
        let round = scraper.scrape(counted(&pods), RoundResult::default(), now, window, None).await.unwrap();
        let mut seconds = round.seconds;
        seconds.sort_by(|a, b| a.concurrency.total_cmp(&b.concurrency));
        seconds.iter().map(|second| (second.memory, second.cpu)).collect::<Vec<_>>()
    };
    assert_eq!(shares().await, [(None, None), (Some(0.5), Some(cpu))]);
    assert_eq!(shares().await, [(None, None), (None, None)]);
}

/// A Kubernetes pod that became ready at 1970-01-01T00:15:00Z.
fn ready_pod(
    ip: &str,
    stats_port: u16,
) -> component_base::kubernetes::Decoded<k8s_openapi::api::core::v1::Pod> {
    let condition = serde_json::json!({
        "type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:15:00Z",
    });
    serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "queue-proxy", "ports": [{"name": "queue-stats", "containerPort": stats_port}]}]},
        "status": {
            "phase": "Running", "podIP": ip, "startTime": "1970-01-01T00:00:00Z", "conditions": [condition],
        },
    }))
    .unwrap()
}

fn learning() -> Option<WorkloadLearning> {
    let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
    settings.learning.objective = Some(LatencyObjective { threshold: OBJECTIVE, quantile: 0.95 });
    let measure = MetricName::Concurrency;
    WorkloadLearning::new(&settings, measure, MetricTarget::of(20.0, measure, 0, &settings), 0, true)
}

#[tokio::test]
async fn records_complete_rounds_of_workloads_that_learn() {
    let (scraper, pods) = loopback(1, 1).await;
    let ready_pod = |ip| ready_pod(ip, pods[0].stats_port);
    scraper.pods.apply(Event::Init);
    scraper.pods.apply(Event::InitDone);
    scraper.pods.apply(Event::Apply(ready_pod("127.0.0.1")));
    let workload = |learning| Workload { learning, ..Workload::sample("web") };
    let round = async |learning, second| {
        let (due, last) = (Duration::from_secs(second), RoundResult::default());
        scraper.scrape_and_record(&workload(learning), due, last).await
    };
    round(None, 1000).await;
    round(learning(), 1001).await;
    scraper.pods.apply(Event::Apply(ready_pod("127.0.0.200")));
    assert!(round(learning(), 1002).await.failing);
    scraper.pods.apply(Event::Delete(ready_pod("127.0.0.200")));
    round(learning(), 1003).await;

    let second = PodSecond { age: Duration::from_secs(101), concurrency: 4.0, ..PodSecond::default() };
    let expected = [(Duration::from_secs(1001), vec![second]), (Duration::from_secs(1003), Vec::new())];
    assert_eq!(scraper.observations.take(&workload(None).key), expected, "a gap at the failed round");
}

/// A scraper with one ready pod of the workload, without the inject label.
async fn plain_pod() -> StatsScraper {
    let (scraper, _) = loopback(0, 0).await;
    scraper.pods.apply(Event::Init);
    scraper.pods.apply(Event::InitDone);
    for event in [Event::Init, Event::InitApply(ready_pod("127.0.0.1", 9090)), Event::InitDone] {
        scraper.pods.apply_unlabelled("shop".to_owned(), event);
    }
    scraper
}

fn plain(bypassed: bool) -> Workload {
    Workload { sidecar: SidecarMode::None, bypassed, ..Workload::sample("web") }
}

#[tokio::test]
async fn pods_without_sidecar_are_idle_only_while_all_activators_report() {
    let (scraper, workload) = (plain_pod().await, plain(false));
    let key = &workload.key;
    scraper.collector.create_or_update(key, workload.windows);
    let now = scraper.collector.clock().now();
    let round = async |second| {
        let due = now + Duration::from_secs(second);
        assert!(!scraper.scrape_and_record(&workload, due, RoundResult::default()).await.failing);
    };
    let averages =
        || scraper.collector.averages(key, MetricName::Concurrency).map(|averages| averages.stable);
    round(0).await;
    assert_eq!((averages(), scraper.collector.idle_since(key)), (None, None), "no data, which is not zero");
    let activator = scraper.collector.reporting_activator();
    round(0).await;
    assert_eq!(averages(), Some(0.0));
    assert!(scraper.collector.idle_since(key).is_some());
    drop(activator);
    round(0).await;
    assert_eq!(scraper.collector.idle_since(key), None, "the lost activator may hold requests");
    assert_eq!(scraper.metrics.scrapes.failed.get(), 0, "no pod is scraped");
}

#[tokio::test]
async fn load_of_pods_without_sidecar_is_what_activators_report() {
    let (scraper, workload) = (plain_pod().await, plain(false));
    scraper.collector.create_or_update(&workload.key, workload.windows);
    let _activator = scraper.collector.reporting_activator();
    let now = scraper.collector.clock().now();
    scraper.scrape_and_record(&workload, now, RoundResult::default()).await;
    let timestamp = i64::try_from(now.as_secs()).unwrap();
    let stat = Stat { average_concurrent_requests: 7.0, timestamp, ..Stat::default() };
    scraper.collector.record_push(&autoscaler::stats::StatMessage { key: workload.key.clone(), stat });
    let averages = || scraper.collector.averages(&workload.key, MetricName::Concurrency);
    assert_eq!(averages().map(|averages| averages.stable), Some(7.0));
    assert_eq!(scraper.collector.idle_since(&workload.key), None);
    // Requests past the activators would be missing from the average.
    scraper.scrape_and_record(&plain(true), now, RoundResult::default()).await;
    assert_eq!(averages(), None);
}

#[tokio::test]
async fn learner_gets_what_activators_report_of_pods_without_sidecar() {
    let scraper = plain_pod().await;
    let learning = Workload::learning("web", LearnTarget::Recommend, 70.0);
    let workload = Workload { sidecar: SidecarMode::None, ..learning };
    let key = &workload.key;
    let round = async |second| {
        scraper.scrape_and_record(&workload, Duration::from_secs(second), RoundResult::default()).await;
    };
    let report = |second: u64, objective_micros| {
        let app = AppStat { completions: 10.0, seconds: 2.0, objective_micros, ..AppStat::default() };
        let stat =
            Stat { average_concurrent_requests: 2.0, request_count: 11.0, app: Some(app), ..Stat::default() };
        let report = PodStat { key: key.clone(), ip: "127.0.0.1".parse().unwrap(), stat };
        scraper.pod_reports.record(Duration::from_secs(second), &report);
    };
    round(1000).await;
    assert!(scraper.observations.take(key).is_empty(), "a gap while no activator is connected");
    let _activator = scraper.collector.reporting_activator();
    round(1001).await;
    // Of two activators.
    report(1001, 0);
    report(1001, 0);
    round(1002).await;
    report(1002, 7);
    round(1003).await;
    let taken = scraper.observations.take(key);
    let seconds: Vec<_> = taken
        .iter()
        .map(|(at, pods)| {
            (at.as_secs(), pods[0].concurrency, pods[0].arrivals, pods[0].app.map(|app| app.completions))
        })
        .collect();
    let idle = (1001, 0.0, 0.0, Some(0.0));
    let other_objective = (1003, 2.0, 11.0, None);
    assert_eq!(seconds, [idle, (1002, 4.0, 22.0, Some(20.0)), other_objective]);
}
