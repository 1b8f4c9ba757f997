//! The end of an installation: workloads wake, and their Services need nothing of Rouse.

use std::time::Duration;

use serde_json::{Value, json};
use zero_scaler::uninstall::error::UninstallError;

use crate::harness::cluster::{AUTOSCALER, Cluster, SERVICE, condition};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const MAP: &str = "/api/v1/namespaces/rouse-system/configmaps/config-autoscaler";
const COPY: &str = "/api/v1/namespaces/rouse-system/configmaps/config-autoscaler-accepted";
const API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io";
const OTHER_API_SERVICE: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.custom.metrics.k8s.io";
const OWN_SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-managed-ipv4";

fn settings(announced: bool) -> Value {
    let annotations = if announced { json!({"autoscaling.rouse.dev/uninstall": "true"}) } else { json!({}) };
    json!({"metadata": {"annotations": annotations}, "data": {}})
}

/// A workload of pods without sidecar, at zero.
async fn plain_at_zero() -> Scenario {
    let mut scenario = Scenario::new(1);
    scenario.cluster.api.put(MAP, settings(false));
    scenario.cluster.plain_pods();
    scenario
        .until("pods behind activators", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("Serving")
        })
        .await;
    scenario.settle().await;
    scenario.until_at_zero().await;
    scenario
}

fn serves_from_pods(cluster: &Cluster) -> bool {
    cluster.size() == 1 && cluster.service_endpoints() == ["10.0.0.0"]
}

/// Runs `zero-scaler uninstall` beside the zero-scalers of the scenario.
async fn uninstall(scenario: &mut Scenario) -> Result<(), UninstallError> {
    let client = scenario.cluster.api.client();
    let run = tokio::spawn(async move { zero_scaler::uninstall::run(&client, "rouse-system").await });
    scenario.until("the end of the uninstall", |_| run.is_finished()).await;
    run.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn announced_uninstall_wakes_workloads_and_keeps_them_awake() {
    let mut scenario = plain_at_zero().await;
    scenario.cluster.api.put(MAP, settings(true));
    scenario.until("a pod in the Service", serves_from_pods).await;
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert!(serves_from_pods(&scenario.cluster));
    scenario.restart();
    scenario.advance(MINUTE).await;
    assert!(serves_from_pods(&scenario.cluster), "after a restart");
    scenario.cluster.api.remove(MAP);
    scenario.advance(5 * MINUTE).await;
    assert!(serves_from_pods(&scenario.cluster), "the settings are deleted before the last process");
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn uninstall_that_is_called_off_lets_workloads_sleep_again() {
    let mut scenario = plain_at_zero().await;
    scenario.cluster.api.put(MAP, settings(true));
    scenario.until("a pod in the Service", serves_from_pods).await;
    scenario.cluster.api.put(MAP, settings(false));
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn uninstall_leaves_workloads_awake_and_services_to_kubernetes() {
    let mut scenario = plain_at_zero().await;
    let ours = json!({"spec": {"service": {"namespace": "rouse-system", "name": "metrics-adapter"}}});
    let other = json!({"spec": {"service": {"namespace": "keda", "name": "metrics-adapter"}}});
    scenario.cluster.api.put(API_SERVICE, ours);
    scenario.cluster.api.put(OTHER_API_SERVICE, other);
    scenario.cluster.api.put(COPY, json!({"data": {}}));
    uninstall(&mut scenario).await.unwrap();
    assert!(serves_from_pods(&scenario.cluster));
    assert_eq!(scenario.cluster.field(SERVICE, "/spec/selector"), json!({"app": "web"}));
    assert_eq!(scenario.cluster.field(SERVICE, "/spec/ports/0/targetPort"), "web");
    assert_eq!(scenario.cluster.api.get(OWN_SLICE), None);
    assert_eq!(scenario.cluster.api.get(API_SERVICE), None);
    assert!(scenario.cluster.api.get(OTHER_API_SERVICE).is_some(), "it leads to another adapter");
    let owner = scenario.cluster.field(COPY, "/metadata/ownerReferences/0");
    assert_eq!(owner["uid"], scenario.cluster.field(MAP, "/metadata/uid"));
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    // A second run, after a failure of the Job, changes nothing.
    let service = scenario.cluster.api.get(SERVICE);
    uninstall(&mut scenario).await.unwrap();
    assert_eq!(scenario.cluster.api.get(SERVICE), service);
}

#[tokio::test(start_paused = true)]
async fn uninstall_without_installation_fails() {
    let mut scenario = Scenario::new(0);
    let error = uninstall(&mut scenario).await.unwrap_err().to_string();
    assert!(error.contains("no ConfigMap \"config-autoscaler\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn uninstall_without_zero_scaler_leaves_a_managed_service_to_kubernetes() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.api.put(MAP, settings(false));
    scenario.until_serving().await;
    scenario.cluster.api.put(
        "/api/v1/namespaces/shop/pods/web-0",
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "app"}]},
            "status": {"podIP": "10.0.0.0", "conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    scenario.stop();
    uninstall(&mut scenario).await.unwrap();
    assert_eq!(scenario.cluster.api.get(OWN_SLICE), None);
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}
