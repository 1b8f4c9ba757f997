//! Faults of Ingresses and routes.

use serde_json::{Value, json};

use crate::healthy::{AUTOSCALER, POD, SERVICE, assert_only, findings, healthy, set};

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

#[tokio::test]
async fn names_inference_pool_that_bypasses_the_service() {
    let api = healthy();
    let path = "/apis/inference.networking.k8s.io/v1/namespaces/shop/inferencepools/llm";
    let pool = |app: &str, port: u16| {
        json!({
            "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
            "metadata": {"name": "llm", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": app}}, "targetPorts": [{"number": port}]},
        })
    };
    api.put(path, pool("other", 8000));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    api.put(path, pool("web", 8000));
    assert_only(&api, "InferencePool shop/llm", "InferencePoolBypass", "name the Service in the route").await;
    api.put(path, pool("web", 8012));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "its requests are counted");
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    assert_only(&api, "InferencePool shop/llm", "InferencePoolBypass", "scale-to-zero").await;
}

#[tokio::test]
async fn names_default_timeout_below_the_wake_timeout_of_a_workload() {
    let api = healthy();
    set(&api, AUTOSCALER, "/spec/scaleToZero", json!(true));
    let gateway = "/apis/gateway.networking.k8s.io/v1";
    let object = |kind: &str, namespace: &str, name: &str, spec: Value| {
        json!({"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec})
    };
    let controller = json!({"controllerName": "gateway.envoyproxy.io/gatewayclass-controller"});
    api.put(&format!("{gateway}/gatewayclasses/envoy"), object("GatewayClass", "", "envoy", controller));
    let class = json!({"gatewayClassName": "envoy"});
    api.put(
        &format!("{gateway}/namespaces/edge/gateways/public"),
        object("Gateway", "edge", "public", class),
    );
    let backend = json!([{"name": "web", "namespace": "shop", "port": 80}]);
    let spec = json!({"parentRefs": [{"name": "public"}], "rules": [{"backendRefs": backend}]});
    api.put(&format!("{gateway}/namespaces/edge/httproutes/web"), object("HTTPRoute", "edge", "web", spec));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "its pods start within 15 s");
    let patience = json!({"autoscaling.rouse.dev/wake-timeout": "15m"});
    set(&api, AUTOSCALER, "/metadata/annotations", patience);
    assert_only(&api, "HTTPRoute edge/web", "TimeoutBelowWake", "900s or more").await;
}

#[tokio::test]
async fn names_load_balancer_that_does_not_reach_activators() {
    let api = healthy();
    let ingress = |annotations: Value| {
        json!({
            "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
            "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
        })
    };
    let path = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses/web";
    let targets = |of: &str| json!({"alb.ingress.kubernetes.io/target-type": of});
    api.put(path, ingress(targets("instance")));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    api.put(path, ingress(targets("ip")));
    assert_only(&api, "Ingress shop/web", "SecurityGroupPort", "target-type: instance").await;
    api.remove(path);
    set(&api, SERVICE, "/spec/ports", json!([{"port": 80, "targetPort": 8012}]));
    set(&api, SERVICE, "/metadata/annotations", json!({"cloud.google.com/neg-status": "{}"}));
    assert_only(&api, "Service shop/web", "SecurityGroupPort", "set targetPort to the name").await;
    set(&api, SERVICE, "/spec/ports", json!([{"port": 80, "targetPort": "queue-proxy"}]));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "GKE opens the ports of the endpoints");
}

#[tokio::test]
async fn names_mesh_policy_that_refuses_activators() {
    let api = healthy();
    let path = "/apis/security.istio.io/v1/namespaces/istio-system/peerauthentications/default";
    api.put(
        path,
        json!({
            "apiVersion": "security.istio.io/v1", "kind": "PeerAuthentication",
            "metadata": {"name": "default", "namespace": "istio-system"}, "spec": {"mtls": {"mode": "STRICT"}},
        }),
    );
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "the pods are not in the mesh");
    let redirected = json!({"ambient.istio.io/redirection": "enabled"});
    set(&api, POD, "/metadata/annotations", redirected.clone());
    assert_only(&api, "PeerAuthentication istio-system/default", "MeshStrict", "portLevelMtls").await;
    let activator = "/api/v1/namespaces/rouse-system/pods/activator-1";
    set(&api, activator, "/metadata/annotations", redirected);
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "activators are in the mesh");
}
