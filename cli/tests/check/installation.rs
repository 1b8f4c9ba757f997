//! Faults of what the installation registers in the cluster.

use serde_json::{Value, json};

use crate::healthy::{
    ADAPTER, EXTERNAL, SECRET, SETTINGS, WEB, api_service, assert_only, deployment, findings, healthy,
    path_of, put_version, secret, set,
};
use crate::support::run;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const INJECTION: &str = "queue-proxy.autoscaling.rouse.dev";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/podautoscalers.autoscaling.rouse.dev";

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
async fn names_metrics_adapter_without_pods() {
    let api = healthy();
    api.put(ADAPTER, deployment("metrics-adapter", 0));
    assert_only(&api, "Deployment rouse-system/metrics-adapter", "Unavailable", "describe pods").await;
    set(&api, ADAPTER, "/spec/replicas", json!(0));
    assert_only(&api, "Deployment rouse-system/metrics-adapter", "NoReplicas", "--replicas 2").await;
}

#[tokio::test]
async fn names_expired_certificate() {
    let api = healthy();
    api.put(SECRET, secret(2021));
    let object = "Secret rouse-system/metrics-adapter-serving";
    assert_only(&api, object, "CertificateExpired", "delete secret metrics-adapter-serving").await;
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

#[tokio::test]
async fn names_the_fix_of_a_certificate_that_the_api_server_does_not_trust() {
    let api = healthy();
    let message = "failing or missing response: x509: certificate signed by unknown authority";
    let failing = json!([{"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck", "message": message}]);
    set(&api, EXTERNAL, "/status/conditions", failing);
    assert_only(
        &api,
        "APIService v1beta1.external.metrics.k8s.io",
        "APIServiceUnavailable",
        "write caBundle",
    )
    .await;
}

#[tokio::test]
async fn names_the_fix_of_an_api_server_without_front_proxy() {
    let api = healthy();
    let message = "failing or missing response from https://10.1.0.9:10250/apis/external.metrics.k8s.io/v1beta1: \
                   bad status from https://10.1.0.9:10250/apis/external.metrics.k8s.io/v1beta1: 403";
    let failing = json!([{"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck", "message": message}]);
    set(&api, EXTERNAL, "/status/conditions", failing);
    let object = "APIService v1beta1.external.metrics.k8s.io";
    assert_only(&api, object, "APIServiceUnavailable", "--requestheader-client-ca-file").await;
}

#[tokio::test]
async fn names_secret_without_certificate() {
    let api = healthy();
    set(&api, SECRET, "/data", json!({}));
    let object = "Secret rouse-system/metrics-adapter-serving";
    assert_only(&api, object, "InvalidCertificate", "delete secret").await;
}

#[tokio::test]
async fn names_leaf_that_expired_before_its_issuer() {
    let api = healthy();
    let pem = |year| {
        let data: k8s_openapi::ByteString =
            serde_json::from_value(secret(year).pointer("/data/tls.crt").unwrap().clone()).unwrap();
        data.0
    };
    let chain = k8s_openapi::ByteString([pem(2021), pem(2100)].concat());
    set(&api, SECRET, "/data", json!({"tls.crt": chain}));
    let object = "Secret rouse-system/metrics-adapter-serving";
    assert_only(&api, object, "CertificateExpired", "delete secret").await;
}

#[tokio::test]
async fn names_definition_that_is_absent_deleted_not_served_or_older_than_rouse() {
    let api = healthy();
    let object = "CustomResourceDefinition podautoscalers.autoscaling.rouse.dev";
    let healthy_definition = api.get(DEFINITION).unwrap();
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let mut fields = healthy_definition.pointer(path).unwrap().clone();
    fields.as_object_mut().unwrap().remove("noWake");
    set(&api, DEFINITION, path, fields);
    assert_only(&api, object, "OutdatedDefinition", "crds.yaml").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("no spec.noWake"));
    // An installation of another version has a schema of its own.
    set(
        &api,
        ADAPTER,
        "/spec/template/spec/containers",
        json!([{"name": "metrics-adapter", "image": "a:v9.9.9"}]),
    );
    assert!(!run(&api, &["check"]).await.unwrap().text.contains("OutdatedDefinition"));
    api.put(ADAPTER, deployment("metrics-adapter", 2));
    api.put(DEFINITION, healthy_definition);
    set(&api, DEFINITION, "/spec/versions/0/served", json!(false));
    assert_only(&api, object, "NotServed", "crds.yaml").await;
    set(&api, DEFINITION, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_only(&api, object, "Terminating", "crds.yaml").await;
    api.remove(DEFINITION);
    assert_only(&api, object, "NotInstalled", "crds.yaml").await;
}

#[tokio::test]
async fn names_each_absent_object_of_the_manifests_that_is_needed() {
    for manifest in cli::check::cluster::manifests::manifests("rouse-system") {
        let api = healthy();
        api.remove(&path_of(&manifest));
        let optional = [
            "rouse-activator-fallback-waker",
            "rouse-metrics-adapter-deletion-cost",
            "rouse-zero-scaler-dry-run",
        ];
        let optional = optional.iter().any(|name| manifest["metadata"]["name"] == *name);
        let reasons: Vec<Value> = findings(&api).await.into_iter().map(|it| it["reason"].clone()).collect();
        let expected = if optional { Vec::new() } else { vec![json!("NotInstalled")] };
        assert_eq!(reasons, expected, "{}", path_of(&manifest));
    }
}

#[tokio::test]
async fn installation_without_admission_policies_has_no_finding() {
    let api = healthy();
    for manifest in cli::check::cluster::manifests::manifests("rouse-system") {
        if manifest["kind"].as_str().unwrap().starts_with("ValidatingAdmissionPolicy") {
            api.remove(&path_of(&manifest));
        }
    }
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_role_with_fewer_rights_and_binding_of_another_account() {
    let api = healthy();
    let role = format!("{RBAC}/clusterroles/rouse-zero-scaler");
    let mut rules = api.get(&role).unwrap()["rules"].clone();
    rules[0]["verbs"] = json!(["get", "list"]);
    set(&api, &role, "/rules", rules);
    assert_only(&api, "ClusterRole rouse-zero-scaler", "RightsMissing", "kubectl apply -k deploy").await;
    let api = healthy();
    let subject = json!([{"kind": "ServiceAccount", "name": "zero-scaler", "namespace": "default"}]);
    set(&api, &format!("{RBAC}/clusterrolebindings/rouse-zero-scaler"), "/subjects", subject);
    assert_only(&api, "ClusterRoleBinding rouse-zero-scaler", "RightsMissing", "apply -k deploy").await;
}

#[tokio::test]
async fn names_service_of_rouse_that_selects_other_pods_or_lacks_a_port() {
    let api = healthy();
    let service = "/api/v1/namespaces/rouse-system/services/activator";
    set(&api, service, "/spec/selector", json!({"app": "activator"}));
    assert_only(&api, "Service rouse-system/activator", "ServiceDiffers", "apply -k deploy").await;
    let api = healthy();
    set(&api, service, "/spec/ports", json!([{"name": "admin", "port": 9090, "targetPort": "admin"}]));
    assert_only(&api, "Service rouse-system/activator", "ServiceDiffers", "apply -k deploy").await;
}

#[tokio::test]
async fn names_admission_policy_that_denies_nothing() {
    let api = healthy();
    let name = "activator-scale.autoscaling.rouse.dev";
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings/{name}");
    set(&api, &path, "/spec/validationActions", json!(["Audit"]));
    let object = format!("ValidatingAdmissionPolicyBinding {name}");
    assert_only(&api, &object, "PolicyNotEnforced", "apply -k deploy").await;
}

#[tokio::test]
async fn names_injection_that_leads_elsewhere_or_excludes_the_namespace() {
    let api = healthy();
    api.put("/api/v1/namespaces/shop", json!({"metadata": {"name": "shop", "labels": {"team": "shop"}}}));
    let binding = format!("{ADMISSION}/mutatingadmissionpolicybindings/{INJECTION}");
    let object = format!("MutatingAdmissionPolicyBinding {INJECTION}");
    set(&api, &binding, "/spec/policyName", json!("other"));
    assert_only(&api, &object, "NoInjection", "queue-proxy.yaml").await;
    set(&api, &binding, "/spec/policyName", json!(INJECTION));
    let selecting = |team: &str| json!({"namespaceSelector": {"matchLabels": {"team": team}}});
    set(&api, &binding, "/spec/matchResources", selecting("other"));
    assert_only(&api, &object, "NoInjection", "namespaceSelector").await;
    set(&api, &binding, "/spec/matchResources", selecting("shop"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    set(&api, &binding, "/spec/matchResources", json!({"objectSelector": {"matchLabels": {"app": "api"}}}));
    assert_only(&api, &object, "NoInjection", "selects pods by the label").await;
}

#[tokio::test]
async fn names_invalid_or_absent_settings_and_a_begun_uninstallation() {
    let api = healthy();
    let object = "ConfigMap rouse-system/config-autoscaler";
    set(&api, SETTINGS, "/data", json!({"stable-window": "1d"}));
    assert_only(&api, object, "BadSetting", "annotations.md").await;
    set(&api, SETTINGS, "/data", json!({"enable-scale-to-zero": "false"}));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "no workload asks for it");
    set(&api, crate::healthy::AUTOSCALER, "/spec/scaleToZero", json!(true));
    assert_only(&api, object, "ScaleToZeroDisabled", "enable-scale-to-zero").await;
    set(&api, SETTINGS, "/data", json!({}));
    set(&api, SETTINGS, "/metadata/annotations", json!({"autoscaling.rouse.dev/uninstall": "true"}));
    assert_only(&api, object, "Uninstalling", "autoscaling.rouse.dev/uninstall-").await;
    api.remove(SETTINGS);
    assert_only(&api, object, "NotInstalled", "config-autoscaler.yaml").await;
}

#[tokio::test]
async fn names_namespace_that_is_being_deleted() {
    let api = healthy();
    let namespace = "/api/v1/namespaces/rouse-system";
    set(&api, namespace, "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_only(&api, "Namespace rouse-system", "Terminating", "install Rouse again").await;
    set(&api, namespace, "/metadata/deletionTimestamp", Value::Null);
    let metadata = json!({"name": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    api.put("/api/v1/namespaces/shop", json!({"metadata": metadata}));
    assert_only(&api, "Namespace shop", "NamespaceTerminating", "what its conditions name").await;
}

#[tokio::test]
async fn accepts_a_webhook_in_place_of_the_policy() {
    let api = healthy();
    for kind in ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"] {
        api.remove(&format!(
            "/apis/admissionregistration.k8s.io/v1/{kind}/queue-proxy.autoscaling.rouse.dev"
        ));
    }
    put_version(&api, "35");
    let object = "MutatingWebhookConfiguration queue-proxy.autoscaling.rouse.dev";
    assert_only(&api, object, "NoInjection", "sidecar.injection: webhook").await;
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/queue-proxy.autoscaling.rouse.dev";
    let webhook = |config: Value| {
        json!({"metadata": {"name": "queue-proxy.autoscaling.rouse.dev"},
        "webhooks": [{"name": "queue-proxy.autoscaling.rouse.dev", "clientConfig": config}]})
    };
    api.put(path, webhook(json!({})));
    assert_only(&api, object, "NoInjection", "log of Deployment metrics-adapter").await;
    api.put(path, webhook(json!({"caBundle": "Q0E="})));
    // The API server ignores that it cannot call the webhook.
    assert_only(&api, object, "NoInjection", "port 10250 of the metrics-adapter's pods").await;
    api.respond_to_creations("/api/v1/namespaces/shop/pods", |mut pod| {
        pod["spec"]["initContainers"] = json!([{"name": "queue-proxy"}]);
        pod
    });
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}
