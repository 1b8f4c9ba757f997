//! `check` on an API in memory: nothing on a healthy cluster, and twelve planted faults, each of
//! which is named with its object and its fix.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod support;

use fake_api::FakeApi;
use http::StatusCode;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use support::run;

const SYSTEM: &str = "/api/v1/namespaces/rouse-system";
const EXTERNAL: &str = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io";
const ADAPTER: &str = "/apis/apps/v1/namespaces/rouse-system/deployments/metrics-adapter";
const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";
const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
const POD: &str = "/api/v1/namespaces/shop/pods/web-1";
const SECRET: &str = "/api/v1/namespaces/rouse-system/secrets/metrics-adapter-serving";

// === the healthy cluster ===

fn healthy() -> FakeApi {
    let api = FakeApi::default();
    put_version(&api, "37");
    put_installation(&api);
    put_workload(&api);
    api
}

fn put_version(api: &FakeApi, minor: &str) {
    let version = json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0"), "buildDate": "", "compiler": "",
        "gitCommit": "", "gitTreeState": "", "goVersion": "", "platform": "",
    });
    api.respond_to_reads("/version", StatusCode::OK, version.to_string());
}

fn put_installation(api: &FakeApi) {
    api.put(
        "/api/v1/namespaces/rouse-system",
        json!({
            "metadata": {"name": "rouse-system", "labels": {"kubernetes.io/metadata.name": "rouse-system"}},
        }),
    );
    api.put(EXTERNAL, api_service("rouse-system", "metrics-adapter"));
    for name in ["metrics", "podautoscalers", "serverlessservices"] {
        let path =
            format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}.autoscaling.rouse.dev");
        let names = json!({"plural": name, "kind": "Any"});
        let spec =
            json!({"group": "autoscaling.rouse.dev", "names": names, "scope": "Namespaced", "versions": []});
        api.put(&path, json!({"metadata": {"name": format!("{name}.autoscaling.rouse.dev")}, "spec": spec}));
    }
    for kind in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        let name = "queue-proxy.autoscaling.rouse.dev";
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
        api.put(&path, json!({"metadata": {"name": name}, "spec": {}}));
    }
    for name in ["activator", "metrics-adapter", "zero-scaler"] {
        let path = format!("/apis/apps/v1/namespaces/rouse-system/deployments/{name}");
        api.put(&path, deployment(name, 2));
        api.put(&format!("{SYSTEM}/pods/{name}-1"), json!({
            "metadata": {"name": format!("{name}-1"), "namespace": "rouse-system", "labels": {"app.kubernetes.io/name": name}},
            "status": {"podIP": "10.1.0.7"},
        }));
    }
    api.put(SECRET, secret(2100));
}

fn api_service(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
        "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": namespace, "name": name, "port": 443},
        },
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]},
    })
}

fn deployment(name: &str, available: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "rouse-system"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"spec": {"containers": [{"name": name}]}},
        },
        "status": {"availableReplicas": available},
    })
}

/// The Secret of a serving certificate that ends in this year.
fn secret(year: i32) -> Value {
    let mut params = CertificateParams::new(["metrics-adapter.rouse-system.svc".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let data: k8s_openapi::ByteString = k8s_openapi::ByteString(certificate.pem().into_bytes());
    json!({"metadata": {"name": "metrics-adapter-serving", "namespace": "rouse-system"}, "data": {"tls.crt": data}})
}

fn put_workload(api: &FakeApi) {
    api.put(WEB, web(&json!({"containers": [{"name": "app", "ports": [{"containerPort": 8080}]}]})));
    api.put(SERVICE, json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "clusterIP": "10.96.0.7", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "queue-proxy"}],
        },
    }));
    api.put(&format!("{HPA}/web"), hpa("web"));
    api.put(POD, pod(&json!([{"type": "PodScheduled", "status": "True"}])));
    put_status(api, &json!({"conditions": [condition("Ready", "True", "Serving", "")]}));
}

fn web(pod: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"}},
                "spec": pod,
            },
        },
    })
}

fn hpa(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 50,
            "metrics": [{"type": "External", "external": {
                "metric": {"name": "concurrency", "selector": {"matchLabels": {"service": "web"}}},
                "target": {"type": "AverageValue", "averageValue": "70"},
            }}],
        },
    })
}

fn pod(conditions: &Value) -> Value {
    json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"}},
        "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "queue-proxy", "restartPolicy": "Always"}]},
        "status": {"conditions": conditions},
    })
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn put_status(api: &FakeApi, status: &Value) {
    api.put(AUTOSCALER, json!({
        "apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "service": "web", "metric": "concurrency", "target": "70", "minReplicas": 1, "maxReplicas": 50,
        },
        "status": status,
    }));
}

/// Changes one field of a stored object.
fn set(api: &FakeApi, path: &str, pointer: &str, value: Value) {
    let mut object = api.get(path).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    api.put(path, object);
}

// === the faults ===

/// The findings, with the exit code checked.
async fn findings(api: &FakeApi) -> Vec<Value> {
    let output = run(api, &["check", "-o", "json"]).await.unwrap();
    let findings = output.json()["findings"].as_array().unwrap().clone();
    assert_eq!(output.is_success(), findings.is_empty());
    findings
}

/// Asserts that there is exactly this finding, and that it has a fix.
async fn assert_only(api: &FakeApi, object: &str, reason: &str, fix: &str) {
    let findings = findings(api).await;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(
        (findings[0]["object"].as_str(), findings[0]["reason"].as_str()),
        (Some(object), Some(reason))
    );
    assert!(findings[0]["fix"].as_str().unwrap().contains(fix), "{findings:#?}");
}

#[tokio::test]
async fn healthy_cluster_has_no_finding() {
    let api = healthy();
    let output = run(&api, &["check"]).await.unwrap();
    assert!(output.is_success());
    assert_eq!(output.text, "nothing is wrong with Rouse and 1 workload\n");
    assert_eq!(api.writes(), [""; 0], "check writes nothing");
}

#[tokio::test]
async fn names_foreign_api_service() {
    let api = healthy();
    api.put(EXTERNAL, api_service("keda", "keda-operator-metrics-apiserver"));
    let object = "APIService v1beta1.external.metrics.k8s.io";
    assert_only(&api, object, "ForeignAPIService", "custom-metrics.md").await;
    let text = run(&api, &["check"]).await.unwrap().text;
    assert!(text.contains("it leads to Service keda/keda-operator-metrics-apiserver"), "{text}");
}

#[tokio::test]
async fn names_missing_label_once_although_the_condition_reports_it_too() {
    let api = healthy();
    set(&api, WEB, "/spec/template/metadata/labels", json!({"app": "web"}));
    let reported = condition("Ready", "False", "SidecarMissing", "the pods have no sidecar");
    put_status(&api, &json!({"conditions": [reported]}));
    assert_only(&api, "Deployment shop/web", "SidecarMissing", "autoscaling.rouse.dev/inject: \"true\"")
        .await;
}

#[tokio::test]
async fn names_pod_that_is_older_than_its_label() {
    let api = healthy();
    set(&api, POD, "/spec/initContainers", json!([]));
    assert_only(&api, "Deployment shop/web", "SidecarMissing", "rollout restart deployment/web").await;
}

#[tokio::test]
async fn names_target_port_past_the_sidecar() {
    let api = healthy();
    set(&api, SERVICE, "/spec/ports", json!([{"port": 80, "targetPort": 8080}]));
    assert_only(&api, "Service shop/web", "SidecarBypassed", "queue-proxy").await;
}

#[tokio::test]
async fn names_both_hpas_of_one_target() {
    let api = healthy();
    let mut other = hpa("web-cpu");
    other["spec"]["metrics"] = json!([]);
    api.put(&format!("{HPA}/web-cpu"), other);
    assert_only(&api, "HorizontalPodAutoscaler shop/web", "MultipleHPAs", "delete hpa web-cpu").await;
}

#[tokio::test]
async fn names_hpa_without_tolerance_where_the_cluster_keeps_it() {
    let api = healthy();
    let advice =
        condition("HPAAccepted", "True", "ToleranceNotZero", "spec.behavior.scaleUp has no tolerance: \"0\"");
    put_status(&api, &json!({"conditions": [advice]}));
    assert_only(&api, "PodAutoscaler shop/web", "ToleranceNotZero", "tolerance: \"0\"").await;
    put_version(&api, "34");
    set(&api, WEB, "/spec/template/spec/initContainers", json!([{"name": "queue-proxy"}]));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_metrics_adapter_without_pods() {
    let api = healthy();
    api.put(ADAPTER, deployment("metrics-adapter", 0));
    assert_only(&api, "Deployment rouse-system/metrics-adapter", "Unavailable", "describe pods").await;
    set(&api, ADAPTER, "/spec/replicas", json!(0));
    assert_only(&api, "Deployment rouse-system/metrics-adapter", "ScaledToZero", "--replicas 2").await;
}

#[tokio::test]
async fn names_expired_certificate() {
    let api = healthy();
    api.put(SECRET, secret(2021));
    let object = "Secret rouse-system/metrics-adapter-serving";
    assert_only(&api, object, "CertificateExpired", "delete secret metrics-adapter-serving").await;
}

#[tokio::test]
async fn names_network_policy_that_blocks_statistics() {
    let api = healthy();
    let path = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/web";
    let policy = |ports: Value| {
        let from =
            json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "rouse-system"}}}]);
        let ingress = json!([{"ports": [{"port": 8012}]}, {"from": from, "ports": ports}]);
        json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Ingress"], "ingress": ingress},
        })
    };
    api.put(path, policy(json!([{"port": 8022}])));
    assert_only(&api, "NetworkPolicy shop/web", "StatisticsBlocked", "docs/reference/ports.md").await;
    api.put(path, policy(json!([{"port": 9090, "protocol": "TCP"}])));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_ingress_that_bypasses_the_activators_or_names_no_port() {
    let api = healthy();
    let ingress = |backend: Value| {
        json!({
            "metadata": {
                "name": "web", "namespace": "shop",
                "annotations": {"nginx.ingress.kubernetes.io/proxy-read-timeout": "3"},
            },
            "spec": {"rules": [{"http": {"paths": [{"pathType": "Prefix", "backend": {"service": backend}}]}}]},
        })
    };
    let path = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web";
    api.put(path, ingress(json!({"name": "web-private", "port": {"number": 80}})));
    assert_only(&api, "Ingress shop/web", "ActivatorBypassed", "name Service web").await;
    api.put(path, ingress(json!({"name": "web", "port": {"name": "http"}})));
    assert_only(&api, "Ingress shop/web", "ServicePortNotFound", "which has 80").await;
    api.put(path, ingress(json!({"name": "web", "port": {"number": 80}})));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "it does not go to zero");
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    assert_only(&api, "Ingress shop/web", "TimeoutBelowWake", "10s or more").await;
}

#[tokio::test]
async fn names_route_with_a_timeout_below_a_wake() {
    let api = healthy();
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    let route = |timeout: &str| {
        let backends =
            json!([{"name": "web", "port": 80}, {"name": "web", "namespace": "other", "port": 81}]);
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"rules": [{"timeouts": {"request": timeout}, "backendRefs": backends}]},
        })
    };
    let path = "/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web";
    api.put(path, route("500ms"));
    assert_only(&api, "HTTPRoute shop/web", "TimeoutBelowWake", "10s or more").await;
    api.put(path, route("1m"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_headless_service() {
    let api = healthy();
    set(&api, SERVICE, "/spec/clusterIP", json!("None"));
    assert_only(&api, "Service shop/web", "ServiceIsHeadless", "cluster IP").await;
}

#[tokio::test]
async fn names_app_on_a_port_of_the_sidecar() {
    let api = healthy();
    set(
        &api,
        WEB,
        "/spec/template/spec/containers",
        json!([{"name": "app", "ports": [{"containerPort": 8012}]}]),
    );
    assert_only(&api, "Deployment shop/web", "AppPortTaken", "another port than 8012").await;
    set(
        &api,
        WEB,
        "/spec/template/spec/containers",
        json!([{"name": "app", "args": ["serve", "--port=8012"]}]),
    );
    assert_only(&api, "Deployment shop/web", "AppPortTaken", "another port than 8012").await;
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
async fn names_missing_injection_policy_only_where_pods_need_it() {
    let api = healthy();
    let policy =
        "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/queue-proxy.autoscaling.rouse.dev";
    api.remove(policy);
    let object = "MutatingAdmissionPolicy queue-proxy.autoscaling.rouse.dev";
    assert_only(&api, object, "NoInjection", "queue-proxy.yaml").await;
    set(&api, WEB, "/spec/template/spec/initContainers", json!([{"name": "queue-proxy"}]));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

// === arguments and rights ===

#[tokio::test]
async fn preflight_expects_nothing_of_rouse() {
    let api = FakeApi::default();
    put_version(&api, "36");
    let output = run(&api, &["check", "--preflight"]).await.unwrap();
    assert!(output.is_success());
    assert_eq!(output.text, "nothing keeps Rouse from being installed\n");
    put_version(&api, "30");
    let output = run(&api, &["check", "--preflight"]).await.unwrap();
    assert!(!output.is_success() && output.text.contains("OldCluster"), "{}", output.text);
}

#[tokio::test]
async fn unreadable_objects_are_listed_and_are_no_findings() {
    let api = healthy();
    let forbidden = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "secrets is forbidden",
    });
    api.respond_to_reads(SECRET, StatusCode::FORBIDDEN, forbidden.to_string());
    let output = run(&api, &["check"]).await.unwrap();
    assert!(output.is_success());
    let expected = "not checked: Secret rouse-system/metrics-adapter-serving: secrets is forbidden\n";
    assert!(output.text.starts_with(expected), "{}", output.text);
}

#[tokio::test]
async fn unknown_workload_is_an_error() {
    let api = healthy();
    assert!(run(&api, &["check", "shop/web"]).await.unwrap().is_success());
    let error = run(&api, &["check", "shop/absent"]).await.err().unwrap();
    assert!(error.to_string().contains("shop/absent is no workload"), "{error}");
}
