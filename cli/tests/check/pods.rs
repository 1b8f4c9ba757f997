//! Faults of pods, their template and their sidecars.

use serde_json::{Value, json};

use crate::healthy::{
    AUTOSCALER, POD, SERVICE, WEB, assert_only, condition, findings, healthy, pod, put_status, set,
    unreconciled,
};
use crate::support::run;

const OBJECT: &str = "Deployment shop/web";
const INJECTION: &str =
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/queue-proxy.autoscaling.rouse.dev";

fn container(name: &str, state: &Value, last: &Value) -> Value {
    json!([{
        "name": name, "image": "", "imageID": "", "ready": false, "restartCount": 3, "state": state, "lastState": last,
    }])
}

#[tokio::test]
async fn names_missing_label_once_although_the_condition_reports_it_too() {
    let api = unreconciled();
    set(&api, WEB, "/spec/template/metadata/labels", json!({"app": "web"}));
    set(&api, AUTOSCALER, "/spec/sidecar", json!("Required"));
    let fix = "autoscaling.rouse.dev/inject: \"true\" (kubectl rouse init deployment/web --namespace shop";
    assert_only(&api, OBJECT, "SidecarMissing", fix).await;
    let reported = condition("Ready", "False", "SidecarMissing", "the pods have no sidecar");
    put_status(&api, &json!({"conditions": [reported]}));
    assert_only(&api, "PodAutoscaler shop/web", "SidecarMissing", fix).await;
}

#[tokio::test]
async fn finds_nothing_at_plain_pods_behind_a_service_without_selector() {
    let api = unreconciled();
    for (path, labels) in [(WEB, "/spec/template/metadata/labels"), (POD, "/metadata/labels")] {
        set(&api, path, labels, json!({"app": "web"}));
    }
    set(&api, POD, "/spec/initContainers", json!([]));
    assert_only(&api, "Service shop/web", "ServiceHasSelector", "remove the selector").await;
    set(&api, SERVICE, "/spec/selector", json!({}));
    assert_eq!(findings(&api).await, [json!(null); 0], "no annotation is needed");
}

#[tokio::test]
async fn names_pod_that_is_older_than_its_label() {
    let api = healthy();
    set(&api, POD, "/spec/initContainers", json!([]));
    assert_only(&api, "Deployment shop/web", "SidecarMissing", "rollout restart deployment/web").await;
}

#[tokio::test]
async fn names_app_on_a_port_of_the_sidecar() {
    let api = unreconciled();
    set(
        &api,
        WEB,
        "/spec/template/spec/containers",
        json!([{"name": "app", "ports": [{"containerPort": 8012}]}]),
    );
    assert_only(&api, "Deployment shop/web", "AppPortTaken", "sidecar-port").await;
    set(
        &api,
        WEB,
        "/spec/template/spec/containers",
        json!([{"name": "app", "args": ["serve", "--port=8012"]}]),
    );
    assert_only(&api, "Deployment shop/web", "AppPortTaken", "sidecar-port").await;
}

#[tokio::test]
async fn names_unschedulable_pods_with_the_schedulers_message() {
    let api = healthy();
    let message = "0/3 nodes are available: 3 Insufficient cpu.";
    let conditions =
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
    api.put(POD, pod(&conditions));
    assert_only(&api, "Deployment shop/web", "Unschedulable", "add nodes").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains(message));
}

#[tokio::test]
async fn names_frozen_learned_target_unless_nothing_is_learned() {
    let api = healthy();
    let status = |phase: &str| json!({"learning": {"mode": "Apply", "phase": phase, "confidence": 20, "message": "3 % fail"}});
    put_status(&api, &status("Frozen(FailedRequests)"));
    assert_only(&api, "PodAutoscaler shop/web", "TargetFrozen", "latency-objective").await;
    put_status(&api, &status("Frozen(NoSidecar)"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_container_that_does_not_start_once_although_the_condition_reports_it_too() {
    let api = healthy();
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no such image"}});
    set(&api, POD, "/status/containerStatuses", container("app", &waiting, &json!({})));
    put_status(
        &api,
        &json!({"conditions": [condition("PodsCanStart", "False", "ImagePull", "no such image")]}),
    );
    assert_only(&api, "PodAutoscaler shop/web", "ImagePull", "correct the image").await;
    put_status(&api, &json!({}));
    assert_only(&api, OBJECT, "ImagePull", "correct the image").await;
}

#[tokio::test]
async fn names_sidecar_that_crashes_or_lacks_memory() {
    let api = healthy();
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
    let ended =
        json!({"terminated": {"exitCode": 1, "reason": "Error", "message": "container-concurrency: many"}});
    set(&api, POD, "/status/initContainerStatuses", container("queue-proxy", &waiting, &ended));
    assert_only(&api, OBJECT, "CrashLoop", "logs web-1 --container queue-proxy").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("container-concurrency: many"));
    let now = jiff::Timestamp::now().to_string();
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": now}});
    set(
        &api,
        POD,
        "/status/initContainerStatuses",
        container("queue-proxy", &json!({"running": {}}), &killed),
    );
    assert_only(&api, OBJECT, "OOMKilled", "memoryLimit").await;
}

#[tokio::test]
async fn names_pod_that_stays_unready_with_the_port_of_its_app() {
    let api = healthy();
    api.put(
        POD,
        pod(&json!([{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}])),
    );
    let sidecar =
        json!([{"name": "queue-proxy", "env": [{"name": "QUEUE_PROXY_APP_PORT", "value": "8080"}]}]);
    set(&api, POD, "/spec/initContainers", sidecar);
    set(
        &api,
        POD,
        "/status/initContainerStatuses",
        container("queue-proxy", &json!({"running": {}}), &json!({})),
    );
    assert_only(&api, OBJECT, "PodNotReady", "must listen on the port").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("expects the app to listen on port 8080"));
}

#[tokio::test]
async fn names_app_port_that_is_no_port() {
    let api = healthy();
    set(&api, WEB, "/spec/template/metadata/annotations", json!({"autoscaling.rouse.dev/app-port": "http"}));
    assert_only(&api, OBJECT, "InvalidAppPort", "number of the port").await;
}

#[tokio::test]
async fn names_sidecar_of_another_version_than_new_pods_get() {
    let api = healthy();
    let variables =
        |tag: &str| json!([{"name": "image", "expression": format!("\"rouse/queue-proxy:{tag}\"")}]);
    let sidecar = json!([{"name": "queue-proxy", "image": "mirror:5000/rouse/queue-proxy:v0.1.0"}]);
    set(&api, POD, "/spec/initContainers", sidecar);
    set(&api, INJECTION, "/spec/variables", variables("v0.1.0"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    set(&api, INJECTION, "/spec/variables", variables("v0.2.0"));
    assert_only(&api, OBJECT, "SidecarOutdated", "rollout restart deployment/web").await;
}

#[tokio::test]
async fn names_pods_on_the_network_of_their_nodes() {
    let api = unreconciled();
    set(&api, WEB, "/spec/template/spec/hostNetwork", json!(true));
    assert_only(&api, OBJECT, "HostNetwork", "remove hostNetwork").await;
}

#[tokio::test]
async fn names_sidecar_of_pods_for_windows() {
    let api = unreconciled();
    set(&api, WEB, "/spec/template/spec/nodeSelector", json!({"kubernetes.io/os": "windows"}));
    assert_only(&api, OBJECT, "WindowsPods", "remove the label").await;
}

#[tokio::test]
async fn names_budget_that_blocks_the_drain_of_a_node() {
    let api = healthy();
    let budget = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets/web";
    let put = |spec: Value| api.put(budget, json!({"metadata": {"name": "web"}, "spec": spec}));
    put(json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    put(json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "api"}}}));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "of other pods");
    put(json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}));
    assert_only(&api, "PodDisruptionBudget shop/web", "EvictionBlocked", "maxUnavailable: 1").await;
}

#[tokio::test]
async fn names_label_of_pods_that_need_no_sidecar() {
    let api = healthy();
    set(&api, AUTOSCALER, "/spec/sidecar", json!("None"));
    set(&api, SERVICE, "/spec/selector", json!({}));
    assert_only(&api, OBJECT, "SidecarUnused", "remove the label").await;
}
