//! The guard against an API in memory, on a paused clock.

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

/// A guard, of an activator that holds requests for `shop/web` from the beginning.
struct Trial {
    api: FakeApi,
    is_reached: Arc<AtomicBool>,
    registry: Registry,
    begun: Instant,
    _tasks: JoinSet<()>,
}

impl Trial {
    fn begin(replicas: i64) -> Self {
        let (api, registry, mut tasks) = (FakeApi::default(), Registry::new(), JoinSet::new());
        api.put(
            DEPLOYMENT,
            json!({"spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}}}),
        );
        let metrics = Metrics::register(&registry).unwrap();
        let is_reached = Arc::new(AtomicBool::new(false));
        let (asks, mut asked) = mpsc::channel(1);
        let guard = Guard::new(ApiResources::new(api.client()), AFTER, metrics.guard.clone());
        let reached = is_reached.clone();
        tasks.spawn(guard.run(move || reached.load(Ordering::Relaxed), asks));
        tasks.spawn(async move {
            while let Some(question) = asked.recv().await {
                let _ = Question::send(question, vec![web()]);
            }
        });
        Self { api, is_reached, registry, begun: Instant::now(), _tasks: tasks }
    }

    /// Lets time pass until so many seconds after the beginning.
    async fn at(&self, seconds: u64) -> &Self {
        tokio::time::sleep_until(self.begun + Duration::from_secs(seconds)).await;
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

    fn count(&self, outcome: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|f| f.name() == "rouse_activator_guard_wakes_total").unwrap();
        let metric = family.get_metric().iter().find(|m| m.get_label()[0].value() == outcome).unwrap();
        metric.get_counter().get_value()
    }
}

fn web() -> Stranded {
    let target =
        ScaleTargetRef { api_version: "apps/v1".into(), kind: "Deployment".into(), name: "web".into() };
    Stranded { key: Key::new("shop", "web"), target }
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_is_woken_once_no_zero_scaler_was_there_for_long_enough() {
    let trial = Trial::begin(0);
    assert_eq!(trial.at(29).await.size(), 0);
    assert_eq!(trial.api.requests(), Vec::<String>::new());
    assert_eq!(trial.at(33).await.size(), 1);
    assert_eq!(trial.api.writes(), [format!("PUT {DEPLOYMENT}/scale")]);
    assert_eq!((trial.count("woken"), trial.count("failed")), (1.0, 0.0));
}

#[tokio::test(start_paused = true)]
async fn while_a_zero_scaler_is_connected_nothing_is_even_read() {
    let trial = Trial::begin(0);
    trial.is_reached.store(true, Ordering::Relaxed);
    trial.at(600).await;
    trial.is_reached.store(false, Ordering::Relaxed);
    trial.at(620).await;
    // One that comes back in time is given all of the time again.
    trial.is_reached.store(true, Ordering::Relaxed);
    trial.at(622).await;
    trial.is_reached.store(false, Ordering::Relaxed);
    trial.at(650).await;
    assert_eq!(trial.api.requests(), Vec::<String>::new());
    assert_eq!(trial.at(655).await.size(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_has_a_size_keeps_it() {
    let trial = Trial::begin(3);
    trial.at(300).await;
    assert_eq!((trial.size(), trial.api.writes().len()), (3, 0));
    // And is not asked for it each second.
    assert!(trial.api.requests().len() < 60, "{}", trial.api.requests().len());
}

#[tokio::test(start_paused = true)]
async fn who_is_put_to_zero_again_is_left_there_for_a_while() {
    let trial = Trial::begin(0);
    assert_eq!(trial.at(33).await.size(), 1);
    trial.scale(0);
    assert_eq!(trial.at(85).await.size(), 0);
    assert_eq!(trial.at(95).await.size(), 1);
    assert_eq!(trial.api.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again() {
    let trial = Trial::begin(0);
    trial.api.set_outage(Some(Outage::Hanging));
    trial.at(60).await;
    assert!(trial.count("failed") > 0.0);
    trial.api.set_outage(None);
    assert_eq!(trial.at(90).await.size(), 1);
}

#[tokio::test(start_paused = true)]
async fn of_several_activators_one_wakes() {
    let (trial, stranded) = (Trial::begin(0), web());
    let kinds = ApiResources::new(trial.api.client());
    let (one, two) = tokio::join!(wake(&kinds, &stranded), wake(&kinds, &stranded));
    let mut outcomes = [one.unwrap(), two.unwrap()];
    outcomes.sort_by_key(|outcome| *outcome == Outcome::Woken);
    assert!(outcomes[0] != Outcome::Woken && outcomes[1] == Outcome::Woken, "{outcomes:?}");
    assert_eq!(trial.size(), 1);
}
