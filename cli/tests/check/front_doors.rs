//! Faults of Ingresses and routes.

use serde_json::{Value, json};

use crate::healthy::{AUTOSCALER, SERVICE, assert_only, findings, healthy, set};

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
async fn several_paths_to_one_backend_have_one_finding() {
    let api = healthy();
    let path = json!({"pathType": "Prefix", "backend": {"service": {"name": "web-private", "port": {"number": 80}}}});
    let ingress = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"rules": [{"http": {"paths": [path, path]}}, {"http": {"paths": [path]}}]},
    });
    api.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", ingress);
    assert_only(&api, "Ingress shop/web", "ActivatorBypassed", "name Service web").await;
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    let rule = |timeout: &str| json!({"timeouts": {"request": timeout}, "backendRefs": [{"name": "web", "port": 80}]});
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": {"name": "web", "namespace": "shop"}, "spec": {"rules": [rule("5s"), rule("2s")]},
    });
    api.remove("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web");
    api.put("/apis/gateway.networking.k8s.io/v1/namespaces/shop/httproutes/web", route);
    let found = findings(&api).await;
    assert!(found.len() == 1 && found[0]["problem"].as_str().unwrap().contains("is 2s"), "{found:#?}");
}

#[tokio::test]
async fn names_ingress_to_a_second_service_of_the_pods() {
    let api = healthy();
    let mut direct = api.get(SERVICE).unwrap();
    direct["metadata"]["name"] = json!("web-direct");
    direct["spec"]["clusterIP"] = json!("None");
    direct["spec"]["ports"] = json!([{"port": 80, "targetPort": 8080}]);
    let service = "/api/v1/namespaces/shop/services/web-direct";
    api.put(service, direct);
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "other clients may use it");
    let ingress = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"defaultBackend": {"service": {"name": "web-direct", "port": {"number": 80}}}},
    });
    api.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web", ingress);
    assert_only(&api, "Ingress shop/web", "ActivatorBypassed", "name Service web").await;
    set(&api, service, "/spec/ports", json!([{"port": 80, "targetPort": "queue-proxy"}]));
    assert_eq!(
        findings(&api).await,
        Vec::<Value>::new(),
        "its requests are counted, and there is always a pod"
    );
}
