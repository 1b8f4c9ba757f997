//! Which pods get the requests of a Service, where its selector and the target's differ.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, SERVICE, condition};
use crate::harness::scenario::Scenario;

const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const PRIVATE: &str = "/api/v1/namespaces/shop/services/web-private";
const STABLE: &str = "app=web,track=stable";
const CANARY: &str = "app=web,track=canary";

fn select(cluster: &Cluster, labels: Value) {
    cluster.edit(SERVICE, |service| service["spec"]["selector"] = labels);
}

fn annotate(cluster: &Cluster, selector: Option<&str>) {
    cluster.edit(HPA, |hpa| {
        let annotations = hpa["metadata"]["annotations"].as_object_mut().unwrap();
        let name = "autoscaling.rouse.dev/selector";
        match selector {
            Some(selector) => annotations.insert(name.to_owned(), selector.into()),
            None => annotations.remove(name),
        };
    });
}

/// The selectors by which activators choose pods and the metrics-adapter counts, which must agree,
/// and what else must be idle.
fn selectors(cluster: &Cluster) -> (String, Value) {
    let of = |object| cluster.field(object, "/spec/selector").as_str().unwrap_or_default().to_owned();
    assert_eq!(of(SERVERLESS_SERVICE), of(METRIC));
    (of(METRIC), cluster.field(METRIC, "/spec/targetSelector"))
}

async fn settled(scenario: &mut Scenario) -> (String, Value) {
    scenario.settle().await;
    selectors(&scenario.cluster)
}

#[tokio::test(start_paused = true)]
async fn activators_and_adapter_follow_the_selector_of_the_service() {
    let mut scenario = Scenario::new(1);
    select(&scenario.cluster, json!({"app": "web"}));
    scenario.until_serving().await;
    assert_eq!(selectors(&scenario.cluster), ("app=web".to_owned(), Value::Null));
    select(&scenario.cluster, json!({"track": "stable", "app": "web"}));
    assert_eq!(settled(&mut scenario).await, (STABLE.to_owned(), json!("app=web")));
    select(&scenario.cluster, json!({"app": "web", "track": "canary"}));
    assert_eq!(settled(&mut scenario).await, (CANARY.to_owned(), json!("app=web")));
    // The Service alone decides.
    annotate(&scenario.cluster, Some(STABLE));
    assert_eq!(settled(&mut scenario).await.0, CANARY);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn service_made_managed_keeps_the_selector_that_it_had() {
    let mut scenario = Scenario::new(1);
    select(&scenario.cluster, json!({"app": "web", "track": "stable"}));
    scenario.until_serving().await;
    scenario.cluster.make_managed();
    assert_eq!(settled(&mut scenario).await.0, STABLE);
    let private = |cluster: &Cluster| cluster.field(PRIVATE, "/spec/selector");
    assert_eq!(private(&scenario.cluster), json!({"app": "web", "track": "stable"}));
    scenario.restart();
    assert_eq!(settled(&mut scenario).await.0, STABLE, "kept by a successor");
    annotate(&scenario.cluster, Some(CANARY));
    assert_eq!(settled(&mut scenario).await.0, CANARY);
    assert_eq!(private(&scenario.cluster), json!({"app": "web", "track": "canary"}));
    annotate(&scenario.cluster, None);
    assert_eq!(settled(&mut scenario).await, ("app=web".to_owned(), Value::Null));
    // Another Service has no former selector.
    let spec = scenario.cluster.api.get(SERVICE).unwrap()["spec"].clone();
    select(&scenario.cluster, json!({"app": "web", "track": "stable"}));
    scenario.settle().await;
    scenario.cluster.api.put("/api/v1/namespaces/shop/services/shop", json!({"spec": spec}));
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "shop".into();
    });
    assert_eq!(settled(&mut scenario).await.0, "app=web");
}

#[tokio::test(start_paused = true)]
async fn missing_service_changes_no_selector() {
    let mut scenario = Scenario::new(1);
    select(&scenario.cluster, json!({"app": "web", "track": "stable"}));
    scenario.until_serving().await;
    scenario.cluster.api.remove(SERVICE);
    assert_eq!(settled(&mut scenario).await.0, STABLE);
}

#[tokio::test(start_paused = true)]
async fn invalid_selector_of_the_annotation_is_reported_and_ignored() {
    let mut scenario = Scenario::new(1);
    annotate(&scenario.cluster, Some("app in (web, api)"));
    scenario.until_serving().await;
    assert_eq!(selectors(&scenario.cluster).0, "app=web");
    let degraded = condition(&scenario.cluster, AUTOSCALER, "Degraded");
    assert!(degraded.contains("label=value pairs"), "{degraded}");
}

#[tokio::test(start_paused = true)]
async fn annotation_names_the_pods_where_the_selector_of_the_target_is_not_equality() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.edit(DEPLOYMENT, |deployment| {
        deployment["spec"]["selector"] =
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]});
    });
    let ready = |cluster: &Cluster| condition(cluster, SERVERLESS_SERVICE, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("SelectorNotEquality")).await;
    assert!(ready(&scenario.cluster).contains("annotate the HPA"), "{}", ready(&scenario.cluster));
    annotate(&scenario.cluster, Some("app=web"));
    scenario.until_serving().await;
    assert_eq!(selectors(&scenario.cluster), ("app=web".to_owned(), json!("app in (api,web)")));
}

/// The pods start, and no request can reach them.
#[tokio::test(start_paused = true)]
async fn reports_ready_pods_that_the_service_does_not_select() {
    let mut scenario = Scenario::at_zero().await;
    annotate(&scenario.cluster, Some(STABLE));
    scenario.cluster.set_sidecars(false);
    scenario.decide(1, None);
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("PodsNotSelected")).await;
    let message = ready(&scenario.cluster);
    assert!(message.contains(r#"Service \"web\" selects app=web,track=stable"#), "{message}");
    scenario.advance(Duration::from_secs(5)).await;
    annotate(&scenario.cluster, None);
    scenario.cluster.set_sidecars(true);
    scenario.until_serving().await;
    assert!(ready(&scenario.cluster).contains("Serving"), "{}", ready(&scenario.cluster));
}
