//! NetworkPolicies of a workload's namespace.

use serde_json::{Value, json};

use crate::healthy::{AUTOSCALER, POLICIES, SERVICE, WEB, assert_only, findings, healthy, set};

#[tokio::test]
async fn names_network_policy_that_blocks_statistics() {
    let api = healthy();
    let path = &format!("{POLICIES}/web");
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
    assert_only(&api, "NetworkPolicy shop/web", "DatagramsBlocked", "9090/UDP").await;
    api.put(path, policy(json!([{"port": 9090, "protocol": "TCP"}, {"port": 9090, "protocol": "UDP"}])));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

fn policy(ingress: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": ingress},
    })
}

#[tokio::test]
async fn names_network_policy_that_blocks_requests() {
    let api = healthy();
    let path = format!("{POLICIES}/web");
    let statistics = [json!({"port": 9090, "protocol": "TCP"}), json!({"port": 9090, "protocol": "UDP"})];
    api.put(&path, policy(&json!([{"ports": statistics}])));
    assert_only(&api, "NetworkPolicy shop/web", "RequestsBlocked", "8012/TCP").await;
    let http = json!([{"ports": statistics}, {"ports": [{"port": "queue-proxy"}]}]);
    api.put(&path, policy(&http));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    set(&api, WEB, "/spec/template/metadata/annotations", json!({"autoscaling.rouse.dev/protocol": "tcp"}));
    assert_only(&api, "NetworkPolicy shop/web", "RequestsBlocked", "8022/TCP").await;
}

#[tokio::test]
async fn names_network_policy_that_blocks_requests_to_pods_without_sidecar() {
    let api = healthy();
    set(&api, AUTOSCALER, "/spec/sidecar", json!("None"));
    set(&api, WEB, "/spec/template/metadata/labels", json!({"app": "web"}));
    set(&api, SERVICE, "/spec/selector", json!({}));
    set(&api, SERVICE, "/spec/ports", json!([{"port": 80, "targetPort": 8080}]));
    let path = format!("{POLICIES}/web");
    api.put(&path, policy(&json!([{"ports": [{"port": 8012}]}])));
    assert_only(&api, "NetworkPolicy shop/web", "RequestsBlocked", "8080/TCP").await;
    api.put(&path, policy(&json!([{"ports": [{"port": 8080}]}])));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}
