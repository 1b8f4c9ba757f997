//! Workloads without a sidecar: activators are always in the path, and the pods stay as their owner
//! wrote them.

use std::time::Duration;

use serde_json::json;

use crate::harness::cluster::{
    ACTIVATOR, APP_PORT, AUTOSCALER, Cluster, DEPLOYMENT, SERVERLESS_SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-managed-ipv4";

/// A workload without sidecar.
fn plain() -> Scenario {
    let scenario = Scenario::new(1);
    scenario.cluster.plain_pods();
    scenario
}

async fn until_proxied(scenario: &mut Scenario) {
    let proxied = |cluster: &Cluster| {
        cluster.field(SERVERLESS_SERVICE, "/status/mode") == "Proxy"
            && condition(cluster, AUTOSCALER, "Ready").contains("Serving")
    };
    scenario.until("pods behind activators", proxied).await;
    scenario.settle().await;
}

fn bypassed(cluster: &Cluster) -> bool {
    cluster.field(METRIC, "/spec/bypassed") == true
}

#[tokio::test(start_paused = true)]
async fn pods_without_sidecar_go_to_zero_and_back_behind_activators() {
    let mut scenario = plain();
    let template = scenario.cluster.field(DEPLOYMENT, "/spec/template");
    until_proxied(&mut scenario).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    let lease = scenario.cluster.field(SERVERLESS_SERVICE, "/status/ports/0");
    assert_eq!((&lease["podPort"], &lease["podPortName"]), (&json!(0), &json!("web")));
    assert_eq!(scenario.cluster.field(METRIC, "/spec/sidecar"), "None");
    assert!(!bypassed(&scenario.cluster));
    scenario.until_at_zero().await;
    scenario.decide(2, None);
    scenario.until("two replicas", |cluster| cluster.size() == 2).await;
    until_proxied(&mut scenario).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "activators stay in the path");
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(scenario.cluster.field(DEPLOYMENT, "/spec/template"), template, "the owner's");
    assert_eq!(scenario.cluster.events("NotReady").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn service_that_selects_pods_without_sidecar_keeps_them() {
    let mut scenario = plain();
    scenario.cluster.attached();
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("ServiceHasSelector")).await;
    let message = ready(&scenario.cluster);
    assert!(
        message.contains("remove the selector") && message.contains("label the pod template"),
        "{message}"
    );
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    assert_eq!(scenario.cluster.api.get(SLICE), None);
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"], "those of Kubernetes");
    assert!(bypassed(&scenario.cluster), "an HPA that counts no request would remove pods");
    scenario.cluster.make_managed();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.cluster.attached();
    scenario.until("a pod for requests past the activators", |cluster| cluster.size() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn pods_without_sidecar_serve_directly_while_no_activator_is_ready() {
    let mut scenario = plain();
    until_proxied(&mut scenario).await;
    scenario.cluster.activators(&[]);
    scenario.until("the pods", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.endpoint_ports(), [APP_PORT]);
    assert!(bypassed(&scenario.cluster));
    scenario.cluster.activators(&[ACTIVATOR]);
    until_proxied(&mut scenario).await;
    assert!(!bypassed(&scenario.cluster));
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn reports_target_port_that_no_container_has() {
    let mut scenario = plain();
    scenario.cluster.set_target_port("nope");
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("TargetPortNotFound")).await;
    let message = ready(&scenario.cluster);
    assert!(message.contains("nope") && message.contains("10.0.0.0"), "{message}");
    scenario.cluster.set_target_port("web");
    until_proxied(&mut scenario).await;
}

/// Without an annotation the label is enough, in both directions.
#[tokio::test(start_paused = true)]
async fn label_of_a_live_workload_brings_the_sidecar_into_the_path_and_out_of_it() {
    let mut scenario = plain();
    until_proxied(&mut scenario).await;
    let sidecar = |cluster: &Cluster| cluster.field(SERVERLESS_SERVICE, "/spec/sidecar");
    scenario.cluster.label_template(true);
    scenario.settle().await;
    assert_eq!(sidecar(&scenario.cluster), "None", "a ready pod has none yet");
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.cluster.set_sidecars(true);
    scenario.until_serving().await;
    assert_eq!(sidecar(&scenario.cluster), json!(null), "the default is omitted");
    assert_eq!(scenario.cluster.endpoint_ports(), [8012]);
    // The label is removed: activators come first, then the pods lose their sidecars.
    scenario.cluster.label_template(false);
    until_proxied(&mut scenario).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.cluster.set_sidecars(false);
    scenario.settle().await;
    assert_eq!(sidecar(&scenario.cluster), "None");
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn ordinary_service_is_used_once_its_pods_are_labelled_and_it_leads_to_the_sidecar() {
    let mut scenario = plain();
    scenario.cluster.attached();
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("ServiceHasSelector")).await;
    scenario.cluster.label_template(true);
    scenario.cluster.set_sidecars(true);
    scenario.until("the condition", |cluster| ready(cluster).contains("SidecarBypassed")).await;
    scenario.cluster.set_target_port("queue-proxy");
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn target_of_an_unknown_kind_is_judged_by_its_pods() {
    let mut scenario = plain();
    scenario.cluster.scale_a_gadget();
    until_proxied(&mut scenario).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    scenario.cluster.set_sidecars(true);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.endpoint_ports(), [8012]);
}

#[tokio::test(start_paused = true)]
async fn live_workload_changes_between_sidecar_and_none() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    // Away from sidecars: activators come first, then the pods may lose theirs.
    scenario.cluster.annotate_sidecar("false");
    scenario.cluster.set_target_port("web");
    until_proxied(&mut scenario).await;
    scenario.cluster.label_template(false);
    scenario.cluster.set_sidecars(false);
    scenario.settle().await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
    // Back: not before the pods have sidecars.
    scenario.cluster.annotate_sidecar("true");
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("SidecarMissing")).await;
    scenario.settle().await;
    let sidecar = |cluster: &Cluster| cluster.field(SERVERLESS_SERVICE, "/spec/sidecar");
    assert_eq!(sidecar(&scenario.cluster), "None");
    scenario.cluster.label_template(true);
    scenario.settle().await;
    assert_eq!(sidecar(&scenario.cluster), "None", "a ready pod has none yet");
    scenario.cluster.set_sidecars(true);
    scenario.until_serving().await;
    assert_eq!(sidecar(&scenario.cluster), json!(null), "the default is omitted");
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    assert_eq!(scenario.cluster.endpoint_ports(), [8012]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
