//! The fallback waker against an API in memory, on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fake_api::{FakeApi, Outage};
use prometheus::Registry;
use serde_json::json;
use tokio::task::JoinSet;

use super::*;
use crate::metrics::Metrics;

const AFTER: Duration = Duration::from_secs(30);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/shop/deployments/web";

/// The fallback waker of an activator that holds requests for `shop/web` from the beginning.
struct Fixture {
    api: FakeApi,
    is_reached: Arc<AtomicBool>,
    registry: Registry,
    started: Instant,
    _tasks: JoinSet<()>,
}

impl Fixture {
    fn start(replicas: i64) -> Self {
        let (api, registry, mut tasks) = (FakeApi::default(), Registry::new(), JoinSet::new());
        api.put(
            DEPLOYMENT,
            json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}}),
        );
        let metrics = Metrics::register(&registry).unwrap();
        let is_reached = Arc::new(AtomicBool::new(false));
        let (queries, mut received) = mpsc::channel(1);
        let waker =
            FallbackWaker::new(ApiResources::new(api.client()), AFTER, metrics.fallback_waker.clone());
        let reached = is_reached.clone();
        tasks.spawn(waker.run(move || reached.load(Ordering::Relaxed), queries));
        tasks.spawn(async move {
            while let Some(query) = received.recv().await {
                let _ = StrandedQuery::send(query, vec![web()]);
            }
        });
        Self { api, is_reached, registry, started: Instant::now(), _tasks: tasks }
    }

    /// Lets time pass until so many seconds after the start.
    async fn at(&self, seconds: u64) -> &Self {
        tokio::time::sleep_until(self.started + Duration::from_secs(seconds)).await;
        self
    }

    fn size(&self) -> i64 {
        self.api.get(DEPLOYMENT).unwrap()["spec"]["replicas"].as_i64().unwrap()
    }

    fn scale(&self, replicas: i64) {
        let mut object = self.api.get(DEPLOYMENT).unwrap();
        object["spec"]["replicas"] = replicas.into();
        self.api.put(DEPLOYMENT, object);
    }

    fn count(&self, result: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|f| f.name() == "rouse_activator_fallback_wakes_total").unwrap();
        let metric = family.get_metric().iter().find(|m| m.get_label()[0].value() == result).unwrap();
        metric.get_counter().get_value()
    }
}

fn web() -> StrandedWorkload {
    let target =
        ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
    StrandedWorkload { key: Key::new("shop", "web"), target }
}

#[tokio::test(start_paused = true)]
async fn scales_workload_when_no_zero_scaler_was_reachable_for_long() {
    let fixture = Fixture::start(0);
    assert_eq!(fixture.at(29).await.size(), 0);
    assert_eq!(fixture.api.requests(), Vec::<String>::new());
    assert_eq!(fixture.at(33).await.size(), 1);
    assert_eq!(fixture.api.writes(), [format!("PUT {DEPLOYMENT}/scale")]);
    assert_eq!((fixture.count("scaled"), fixture.count("failed")), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn reads_nothing_while_a_zero_scaler_is_connected() {
    let fixture = Fixture::start(0);
    fixture.is_reached.store(true, Ordering::Relaxed);
    fixture.at(600).await;
    fixture.is_reached.store(false, Ordering::Relaxed);
    fixture.at(620).await;
    // A zero-scaler that returns in time restarts the period.
    fixture.is_reached.store(true, Ordering::Relaxed);
    fixture.at(622).await;
    fixture.is_reached.store(false, Ordering::Relaxed);
    fixture.at(650).await;
    assert_eq!(fixture.api.requests(), Vec::<String>::new());
    assert_eq!(fixture.at(655).await.size(), 1);
}

#[tokio::test(start_paused = true)]
async fn does_not_scale_workload_above_zero() {
    let fixture = Fixture::start(3);
    fixture.at(300).await;
    assert_eq!((fixture.size(), fixture.api.writes().len()), (3, 0));
    // It is not read every second either.
    assert!(fixture.api.requests().len() < 60, "{}", fixture.api.requests().len());
}

#[tokio::test(start_paused = true)]
async fn waits_a_minute_before_it_scales_a_workload_again() {
    let fixture = Fixture::start(0);
    assert_eq!(fixture.at(33).await.size(), 1);
    fixture.scale(0);
    assert_eq!(fixture.at(85).await.size(), 0);
    assert_eq!(fixture.at(95).await.size(), 1);
    assert_eq!(fixture.api.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn retries_after_api_server_outage() {
    let fixture = Fixture::start(0);
    fixture.api.set_outage(Some(Outage::Hanging));
    fixture.at(67).await;
    assert!(fixture.count("failed") > 0.0);
    fixture.api.set_outage(None);
    assert_eq!(fixture.at(90).await.size(), 1);
}

#[tokio::test(start_paused = true)]
async fn first_wake_is_within_5_seconds_after_api_server_shed_load() {
    for status in [429, 503, 504] {
        let fixture = Fixture::start(0);
        fixture.api.set_outage(Some(Outage::Shedding(status)));
        fixture.at(122).await;
        assert!(fixture.count("failed") > 0.0);
        fixture.api.set_outage(None);
        assert_eq!(fixture.at(127).await.size(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_concurrent_writes_succeeds() {
    let (fixture, stranded) = (Fixture::start(0), web());
    let resources = ApiResources::new(fixture.api.client());
    let (one, two) =
        tokio::join!(scale_from_zero(&resources, &stranded), scale_from_zero(&resources, &stranded));
    let mut results = [one.unwrap(), two.unwrap()];
    results.sort_by_key(|result| *result == ScaleFromZeroResult::Scaled);
    assert!(
        results[0] != ScaleFromZeroResult::Scaled && results[1] == ScaleFromZeroResult::Scaled,
        "{results:?}"
    );
    assert_eq!(fixture.size(), 1);
}
