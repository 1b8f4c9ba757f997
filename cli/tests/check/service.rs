//! Faults of the Service and its endpoints.

use serde_json::{Value, json};

use crate::healthy::{
    AUTOSCALER, SERVICE, WEB, ZERO_SCALER, assert_only, condition, findings, healthy, put_status, set,
    unreconciled,
};

#[tokio::test]
async fn names_target_port_past_the_sidecar() {
    let api = unreconciled();
    set(&api, SERVICE, "/spec/ports", json!([{"port": 80, "targetPort": 8080}]));
    assert_only(&api, "Service shop/web", "SidecarBypassed", "queue-proxy").await;
}

#[tokio::test]
async fn names_headless_service() {
    let api = unreconciled();
    set(&api, SERVICE, "/spec/clusterIP", json!("None"));
    assert_only(&api, "Service shop/web", "ServiceIsHeadless", "cluster IP").await;
}

#[tokio::test]
async fn shows_the_condition_unless_no_zero_scaler_runs() {
    let api = healthy();
    set(&api, SERVICE, "/spec/clusterIP", json!("None"));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "the zero-scaler has reported no problem");
    let message = "ServiceIsHeadless: Service \"web\" is headless; delete it";
    put_status(&api, &json!({"conditions": [condition("Ready", "False", "ServiceNotReady", message)]}));
    assert_only(&api, "PodAutoscaler shop/web", "ServiceIsHeadless", "cluster IP").await;
    put_status(&api, &json!({"conditions": [condition("Ready", "True", "Serving", "")]}));
    set(&api, ZERO_SCALER, "/status/availableReplicas", json!(0));
    let reasons: Vec<Value> = findings(&api).await.into_iter().map(|it| it["reason"].clone()).collect();
    assert_eq!(reasons, ["Unavailable", "ServiceIsHeadless"]);
}

#[tokio::test]
async fn names_service_that_no_activator_can_serve() {
    let api = unreconciled();
    set(&api, SERVICE, "/spec/ports", json!([{"port": 53, "protocol": "UDP"}]));
    assert_only(&api, "Service shop/web", "ServiceHasNoPort", "add a TCP port").await;
    set(&api, SERVICE, "/spec/type", json!("ExternalName"));
    assert_only(&api, "Service shop/web", "ServiceIsExternal", "ClusterIP").await;
    api.remove(SERVICE);
    assert_only(&api, "Service shop/web", "ServiceNotFound", "create it").await;
}

#[tokio::test]
async fn names_local_traffic_policy_of_a_workload_that_goes_to_zero() {
    let api = healthy();
    set(&api, SERVICE, "/spec/externalTrafficPolicy", json!("Local"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    assert_only(&api, "Service shop/web", "ExternalTrafficPolicyLocal", "Cluster").await;
}

#[tokio::test]
async fn names_selector_that_matches_the_pods_of_two_targets() {
    let api = healthy();
    let mut canary = api.get(WEB).unwrap();
    canary["metadata"]["name"] = json!("web-canary");
    canary["spec"]["selector"]["matchLabels"]["track"] = json!("canary");
    canary["spec"]["template"]["metadata"]["labels"]["track"] = json!("canary");
    api.put("/apis/apps/v1/namespaces/shop/deployments/web-canary", canary);
    assert_only(&api, "Service shop/web", "SeveralTargetsSelected", "give the selector a label").await;
}

#[tokio::test]
async fn names_service_monitor_of_a_service_without_a_selector() {
    let api = healthy();
    let monitor = |namespaces: Value| {
        json!({
            "apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
            "metadata": {"name": "web", "namespace": "monitoring"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "namespaceSelector": namespaces},
        })
    };
    let path = "/apis/monitoring.coreos.com/v1/namespaces/monitoring/servicemonitors/web";
    let labels = |app: &str| set(&api, SERVICE, "/metadata/labels", json!({"app": app}));
    labels("web");
    api.put(path, monitor(json!({"matchNames": ["shop"]})));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "Kubernetes writes the endpoints");
    set(&api, SERVICE, "/spec/selector", Value::Null);
    assert_only(&api, "ServiceMonitor monitoring/web", "PodsNotScraped", "PodMonitor").await;
    api.put(path, monitor(json!({"any": true})));
    assert_only(&api, "ServiceMonitor monitoring/web", "PodsNotScraped", "PodMonitor").await;
    labels("api");
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "it selects another Service");
    labels("web");
    api.put(path, monitor(Value::Null));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "it is for its own namespace");
}

#[tokio::test]
async fn names_foreign_endpoints() {
    let api = healthy();
    let slice = |manager: &str| {
        json!({
            "metadata": {
                "name": "web-x", "namespace": "shop",
                "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": manager},
            },
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [],
        })
    };
    let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-x";
    for manager in ["endpointslice-controller.k8s.io", "zero-scaler.autoscaling.rouse.dev"] {
        api.put(path, slice(manager));
        assert_eq!(findings(&api).await, Vec::<Value>::new());
    }
    api.put(path, slice("staff"));
    assert_only(&api, "EndpointSlice shop/web-x", "ForeignEndpoints", "delete EndpointSlice \"web-x\"").await;
}
