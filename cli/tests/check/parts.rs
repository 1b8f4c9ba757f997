//! Faults of Rouse's own pods: why they do not run, lead, or reach each other.

use fake_api::FakeApi;
use jiff::{Timestamp, ToSpan};
use serde_json::{Value, json};

use crate::healthy::{ADAPTER, LEASES, SYSTEM, assert_only, deployment, findings, healthy, lease, set};
use crate::support::run;

const SYSTEM_POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/rouse-system/networkpolicies";
const OBJECT: &str = "Deployment rouse-system/metrics-adapter";

fn waiting(reason: &str, message: &str) -> Value {
    json!([{
        "name": "metrics-adapter", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}},
    }])
}

#[tokio::test]
async fn names_why_pods_of_rouse_do_not_run() {
    let api = healthy();
    let pod = format!("{SYSTEM}/pods/metrics-adapter-1");
    set(&api, &pod, "/status/containerStatuses", waiting("ImagePullBackOff", "not found"));
    assert_only(&api, OBJECT, "PodFailing", "describe pods").await;
    api.put(ADAPTER, deployment("metrics-adapter", 1));
    assert_only(&api, OBJECT, "PartlyUnavailable", "describe pods").await;
    api.put(ADAPTER, deployment("metrics-adapter", 0));
    assert_only(&api, OBJECT, "Unavailable", "describe pods").await;
    let text = run(&api, &["check"]).await.unwrap().text;
    assert!(
        text.contains("ImagePull of pod metrics-adapter-1, container metrics-adapter: not found"),
        "{text}"
    );
}

#[tokio::test]
async fn names_quota_that_keeps_pods_of_rouse_from_being_created() {
    let api = healthy();
    api.put(ADAPTER, deployment("metrics-adapter", 0));
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}]);
    set(&api, ADAPTER, "/status/conditions", failure);
    assert_only(&api, OBJECT, "Unavailable", "describe pods").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("exceeded quota: small"));
}

#[tokio::test]
async fn names_paused_rollout_and_parts_of_several_versions() {
    let api = healthy();
    set(&api, ADAPTER, "/spec/paused", json!(true));
    assert_only(&api, OBJECT, "RolloutPaused", "rollout resume deployment/metrics-adapter").await;
    let api = healthy();
    let image = json!([{"name": "metrics-adapter", "image": "rouse/metrics-adapter:dev"}]);
    set(&api, ADAPTER, "/spec/template/spec/containers", image);
    assert_only(&api, OBJECT, "VersionSkew", "images of one version").await;
}

#[tokio::test]
async fn names_lease_of_a_vanished_leader_and_a_clock_that_is_ahead() {
    let api = healthy();
    let path = format!("{LEASES}/zero-scaler");
    let object = "Lease rouse-system/zero-scaler";
    api.put(&path, lease("zero-scaler", Timestamp::now() - 5.minutes()));
    assert_only(&api, object, "NoLeader", "delete lease zero-scaler").await;
    api.put(&path, lease("zero-scaler", Timestamp::now() + 5.minutes()));
    assert_only(&api, object, "ClockSkew", "synchronise the clocks").await;
}

#[tokio::test]
async fn names_policy_that_denies_all_in_the_namespace_of_rouse() {
    let api = healthy();
    let policy = |types: Value| {
        json!({
            "metadata": {"name": "deny", "namespace": "rouse-system"},
            "spec": {"podSelector": {}, "policyTypes": types},
        })
    };
    let path = format!("{SYSTEM_POLICIES}/deny");
    api.put(&path, policy(json!(["Ingress"])));
    let found = findings(&api).await;
    assert_eq!(found.len(), 7, "{found:#?}");
    for finding in found {
        assert_eq!(finding["reason"], "TrafficBlocked");
        assert!(finding["fix"].as_str().unwrap().contains("network-policies.yaml"));
    }
    let mut dns = policy(json!(["Egress"]));
    dns["spec"]["egress"] = json!([{"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}]);
    api.put(&path, dns);
    let found = findings(&api).await;
    assert!(found.len() == 3 && found.iter().all(|it| it["reason"] == "EgressBlocked"), "{found:#?}");
}

#[tokio::test]
async fn own_policies_beside_a_default_deny_are_no_finding() {
    let api = healthy();
    let deny = json!({
        "metadata": {"name": "deny", "namespace": "rouse-system"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    });
    api.put(&format!("{SYSTEM_POLICIES}/deny"), deny);
    let file = include_str!("../../../deploy/network-policies.yaml");
    put_policies(&api, file);
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    // The port of the aggregated API is a value of the chart.
    let ports = json!([{"name": "api", "containerPort": 6443}]);
    set(&api, ADAPTER, "/spec/template/spec/containers/0/ports", ports);
    let found = findings(&api).await;
    assert!(found.len() == 1 && found[0]["reason"] == "TrafficBlocked", "{found:#?}");
    put_policies(&api, &file.replace("10250", "6443"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

fn put_policies(api: &FakeApi, file: &str) {
    for document in serde_yaml_ng::Deserializer::from_str(file) {
        let policy: Value = serde::Deserialize::deserialize(document).unwrap();
        api.put(&format!("{SYSTEM_POLICIES}/{}", policy["metadata"]["name"].as_str().unwrap()), policy);
    }
}

#[tokio::test]
async fn names_activators_that_share_a_node_where_there_is_another() {
    let api = healthy();
    let place = |pod: &str, node: &str| {
        let path = format!("{SYSTEM}/pods/{pod}");
        let part = pod.rsplit_once('-').unwrap().0;
        api.put(&path, json!({
            "metadata": {"name": pod, "namespace": "rouse-system", "labels": {"app.kubernetes.io/name": part}},
            "spec": {"containers": [], "nodeName": node},
        }));
    };
    for pod in ["activator-1", "activator-2", "zero-scaler-1"] {
        place(pod, "a");
    }
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "the cluster may have one node");
    place("zero-scaler-1", "b");
    assert_only(&api, "Deployment rouse-system/activator", "SingleNode", "rollout restart").await;
}
