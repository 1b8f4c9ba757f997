//! The healthy cluster with one workload, and assertions on findings.

use autoscaler::api::{Metric, PodAutoscaler, ServerlessService};
use cli::check::cluster::manifests::{manifests, resource};
use fake_api::FakeApi;
use http::StatusCode;
use jiff::Timestamp;
use kube::CustomResourceExt;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use crate::support::run;

pub(crate) const SYSTEM: &str = "/api/v1/namespaces/rouse-system";
pub(crate) const EXTERNAL: &str =
    "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io";
pub(crate) const ADAPTER: &str = "/apis/apps/v1/namespaces/rouse-system/deployments/metrics-adapter";
pub(crate) const ZERO_SCALER: &str = "/apis/apps/v1/namespaces/rouse-system/deployments/zero-scaler";
pub(crate) const WEB: &str = "/apis/apps/v1/namespaces/shop/deployments/web";
pub(crate) const SERVICE: &str = "/api/v1/namespaces/shop/services/web";
pub(crate) const HPA: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";
pub(crate) const AUTOSCALER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/podautoscalers/web";
pub(crate) const POD: &str = "/api/v1/namespaces/shop/pods/web-1";
pub(crate) const SETTINGS: &str = "/api/v1/namespaces/rouse-system/configmaps/config-autoscaler";
pub(crate) const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/rouse-system/leases";
pub(crate) const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies";
pub(crate) const SECRET: &str = "/api/v1/namespaces/rouse-system/secrets/metrics-adapter-serving";

pub(crate) fn healthy() -> FakeApi {
    let api = FakeApi::default();
    put_version(&api, "37");
    put_installation(&api);
    put_workload(&api);
    api
}

/// The same before the zero-scaler wrote a condition.
pub(crate) fn unreconciled() -> FakeApi {
    let api = healthy();
    put_status(&api, &json!({}));
    api
}

pub(crate) fn put_version(api: &FakeApi, minor: &str) {
    let version = json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.0"), "buildDate": "", "compiler": "",
        "gitCommit": "", "gitTreeState": "", "goVersion": "", "platform": "",
    });
    api.respond_to_reads("/version", StatusCode::OK, version.to_string());
}

pub(crate) fn put_installation(api: &FakeApi) {
    api.put(
        "/api/v1/namespaces/rouse-system",
        json!({
            "metadata": {"name": "rouse-system", "labels": {"kubernetes.io/metadata.name": "rouse-system"}},
        }),
    );
    api.put(EXTERNAL, api_service("rouse-system", "metrics-adapter"));
    for definition in [Metric::crd(), PodAutoscaler::crd(), ServerlessService::crd()] {
        let name = definition.metadata.name.clone().unwrap();
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
        api.put(&path, serde_json::to_value(definition).unwrap());
    }
    for manifest in manifests("rouse-system") {
        api.put(&path_of(&manifest), manifest);
    }
    api.put(
        SETTINGS,
        json!({"metadata": {"name": "config-autoscaler", "namespace": "rouse-system"}, "data": {}}),
    );
    for name in ["metrics-adapter", "zero-scaler"] {
        api.put(&format!("{LEASES}/{name}"), lease(name, Timestamp::now()));
    }
    for kind in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        let name = "queue-proxy.autoscaling.rouse.dev";
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}/{name}");
        api.put(&path, json!({"metadata": {"name": name}, "spec": {"policyName": name}}));
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

/// The path of a manifest's object.
pub(crate) fn path_of(manifest: &Value) -> String {
    let version = manifest["apiVersion"].as_str().unwrap();
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let namespace = manifest.pointer("/metadata/namespace").and_then(Value::as_str);
    let namespace = namespace.map(|it| format!("/namespaces/{it}")).unwrap_or_default();
    format!(
        "{root}{namespace}/{}/{}",
        resource(manifest).unwrap().plural,
        manifest["metadata"]["name"].as_str().unwrap()
    )
}

pub(crate) fn lease(name: &str, renewed: Timestamp) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "rouse-system"},
        "spec": {"holderIdentity": format!("{name}-1"), "renewTime": format!("{renewed:.6}"), "leaseDurationSeconds": 9},
    })
}

pub(crate) fn api_service(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": "v1beta1.external.metrics.k8s.io"},
        "spec": {
            "group": "external.metrics.k8s.io", "version": "v1beta1", "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": namespace, "name": name, "port": 443},
        },
        "status": {"conditions": [{"type": "Available", "status": "True", "reason": "Passed"}]},
    })
}

pub(crate) fn deployment(name: &str, available: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "rouse-system"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {"spec": {"containers": [{"name": name, "image": format!("registry.example:5000/rouse/{name}:v0.1.0")}]}},
        },
        "status": {"availableReplicas": available},
    })
}

/// The Secret of a serving certificate that ends in this year.
pub(crate) fn secret(year: i32) -> Value {
    let mut params = CertificateParams::new(["metrics-adapter.rouse-system.svc".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 1, 1);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let data: k8s_openapi::ByteString = k8s_openapi::ByteString(certificate.pem().into_bytes());
    json!({"metadata": {"name": "metrics-adapter-serving", "namespace": "rouse-system"}, "data": {"tls.crt": data}})
}

pub(crate) fn put_workload(api: &FakeApi) {
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

pub(crate) fn web(pod: &Value) -> Value {
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

pub(crate) fn hpa(name: &str) -> Value {
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

pub(crate) fn pod(conditions: &Value) -> Value {
    json!({
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"app": "web", "autoscaling.rouse.dev/inject": "true"}},
        "spec": {"containers": [{"name": "app"}], "initContainers": [{"name": "queue-proxy", "restartPolicy": "Always"}]},
        "status": {"conditions": conditions},
    })
}

pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

pub(crate) fn put_status(api: &FakeApi, status: &Value) {
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
pub(crate) fn set(api: &FakeApi, path: &str, pointer: &str, value: Value) {
    let mut object = api.get(path).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    api.put(path, object);
}

/// The findings, with the exit code checked.
pub(crate) async fn findings(api: &FakeApi) -> Vec<Value> {
    let output = run(api, &["check", "-o", "json"]).await.unwrap();
    let findings = output.json()["findings"].as_array().unwrap().clone();
    assert_eq!(output.is_success(), findings.is_empty());
    findings
}

/// Asserts that there is exactly this finding, and that it has a fix.
pub(crate) async fn assert_only(api: &FakeApi, object: &str, reason: &str, fix: &str) {
    let findings = findings(api).await;
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(
        (findings[0]["object"].as_str(), findings[0]["reason"].as_str()),
        (Some(object), Some(reason))
    );
    assert!(findings[0]["fix"].as_str().unwrap().contains(fix), "{findings:#?}");
}
