//! Services as users write them: with a selector, with ports that bypass the sidecar, with traffic
//! rules that exclude activators, or missing.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::{
    ACTIVATOR, AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const PORT_HOLDER: &str =
    "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/other/serverlessservices/port-holder";
const FORGED: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/attacker/serverlessservices/forged";
const FORGED_SERVICE: &str = "/api/v1/namespaces/attacker/services/forged";
const PRIVATE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-managed-ipv4";
/// Beside those of Kubernetes.
const ATTACHED_SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-ipv4";

/// A workload whose Service selects its pods.
fn attached() -> Scenario {
    let scenario = Scenario::new(1);
    scenario.cluster.attached();
    scenario
}

fn set_ports(cluster: &Cluster, ports: Value) {
    cluster.edit(SERVICE, |service| service["spec"]["ports"] = ports);
}

#[tokio::test(start_paused = true)]
async fn attached_service_has_activators_only_at_zero() {
    let mut scenario = attached();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0", "10.0.0.1"]);
    assert_eq!(scenario.cluster.api.get(ATTACHED_SLICE), None);
    let held = scenario.cluster.notes("RoutedToActivators").concat();
    assert!(held.contains("excess burst capacity is -211"), "{held}");
    let served = scenario.cluster.notes("RoutedToPods").concat();
    assert!(served.contains("excess burst capacity is 10"), "{served}");
}

#[tokio::test(start_paused = true)]
async fn service_at_zero_that_bypasses_the_sidecar_gets_a_pod() {
    let mut scenario = attached();
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    set_ports(
        &scenario.cluster,
        json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]),
    );
    scenario.until("the pods as only endpoints", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.api.get(ATTACHED_SLICE), None);
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("SidecarBypassed") && ready.contains("targetPort: queue-proxy"), "{ready}");
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1], "scaled to zero again");
}

#[tokio::test(start_paused = true)]
async fn port_past_the_sidecar_never_routes_to_an_activator() {
    let mut scenario = attached();
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"});
    set_ports(&scenario.cluster, json!([http, metrics]));
    scenario.until_serving().await;
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains(r#""True" "Serving""#));
    let degraded = condition(&scenario.cluster, AUTOSCALER, "Degraded");
    assert!(degraded.contains("SidecarBypassed") && degraded.contains("9090"), "{degraded}");
    assert_eq!(scenario.cluster.events("SidecarBypassed").len(), 1);
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.field(ATTACHED_SLICE, "/ports/0/name"), "http");
    assert_eq!(scenario.cluster.field(ATTACHED_SLICE, "/ports/1"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn reports_target_port_that_a_managed_service_ignores() {
    let mut scenario = Scenario::new(1);
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8012});
    set_ports(&scenario.cluster, json!([http, metrics]));
    scenario.until_serving().await;
    let degraded = condition(&scenario.cluster, AUTOSCALER, "Degraded");
    assert!(degraded.contains("TargetPortIgnored") && degraded.contains("[9090]"), "{degraded}");
    assert_eq!(scenario.cluster.events("TargetPortIgnored").len(), 1);
    assert_eq!(scenario.cluster.field(SLICE, "/ports/1/port"), 8012);
    // A single port is not reported, because Kubernetes fills in its target.
    set_ports(&scenario.cluster, json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]));
    scenario.until("the condition to clear", |c| condition(c, AUTOSCALER, "Degraded").is_empty()).await;
}

/// The target is reached, by way of the sidecar.
#[tokio::test(start_paused = true)]
async fn app_as_target_of_a_managed_port_is_no_problem() {
    let mut scenario = Scenario::new(1);
    let port = |name: &str, port: u16, target: Value| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": target});
    scenario.cluster.edit(DEPLOYMENT, |deployment| {
        let ports =
            json!([{"containerPort": 3000, "name": "web"}, {"containerPort": 9100, "name": "metrics"}]);
        deployment["spec"]["template"]["spec"]["containers"] = json!([{"name": "app", "ports": ports}]);
    });
    set_ports(&scenario.cluster, json!([port("number", 80, json!(3000)), port("name", 81, json!("web"))]));
    scenario.until_serving().await;
    scenario.advance(MINUTE).await;
    assert_eq!(condition(&scenario.cluster, AUTOSCALER, "Degraded"), "");
    set_ports(&scenario.cluster, json!([port("number", 80, json!("metrics"))]));
    let is_reported = |c: &Cluster| condition(c, AUTOSCALER, "Degraded").contains("TargetPortIgnored");
    scenario.until("the report of a port that leads elsewhere", is_reported).await;
}

#[tokio::test(start_paused = true)]
async fn keeps_pod_when_service_rules_exclude_activators() {
    for (attach, field, rule, none, reason) in [
        (true, "sessionAffinity", "ClientIP", "None", "SessionAffinity"),
        (false, "internalTrafficPolicy", "Local", "Cluster", "InternalTrafficPolicyLocal"),
    ] {
        let mut scenario = if attach { attached() } else { Scenario::new(1) };
        scenario.cluster.edit(SERVICE, |service| service["spec"][field] = rule.into());
        scenario.until_serving().await;
        scenario.decide_idle();
        scenario.advance(5 * MINUTE).await;
        assert_eq!(scenario.cluster.observed().sizes, [1], "{reason}");
        let in_path = condition(&scenario.cluster, AUTOSCALER, "ActivatorInPath");
        assert!(in_path.contains(&format!("set the Service's {field} to {none}")), "{in_path}");
        assert!(condition(&scenario.cluster, AUTOSCALER, "Degraded").contains(reason));
        assert_eq!(scenario.cluster.events(reason).len(), 1);
        if !attach {
            assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"], "requests stay on their node");
        }
        scenario.cluster.edit(SERVICE, |service| service["spec"][field] = none.into());
        scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
        scenario.settle().await;
        scenario.cluster.edit(SERVICE, |service| service["spec"][field] = rule.into());
        scenario.settle().await;
        // Session affinity at zero still leads to an activator. With a local traffic policy nodes
        // without an activator drop requests.
        assert_eq!(scenario.cluster.size(), i64::from(!attach), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_missing_service_and_releases_the_former_one() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "shop".into();
    });
    let ready_condition = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario
        .until("the condition", |c| {
            ready_condition(c).contains(r#"Service \"shop\" does not exist; create it"#)
        })
        .await;
    scenario.settle().await;
    assert_eq!((scenario.cluster.api.get(SLICE), scenario.cluster.api.get(PRIVATE)), (None, None));
    let service = scenario.cluster.api.get(SERVICE).unwrap()["spec"].clone();
    scenario.cluster.api.put("/api/v1/namespaces/shop/services/shop", json!({"spec": service}));
    scenario.until("the condition to clear", |c| !ready_condition(c).contains("ServiceNotFound")).await;
    // And back, from an existing Service.
    scenario.settle().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "web".into();
    });
    scenario.until("the pods as only endpoints", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.settle().await;
    let left = |(path, _): &(String, Value)| path.contains("/shop-");
    assert!(!scenario.cluster.api.objects().iter().any(left));
}

#[tokio::test(start_paused = true)]
async fn releases_managed_service_that_gets_a_selector() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.attached();
    scenario.until("Kubernetes' slices alone", |c| c.slices() == [1] && c.api.get(SLICE).is_none()).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.api.get(PRIVATE), None);
    // Without ports of the sidecar there is nothing to add.
    scenario.cluster.edit(SERVICE, |service| service["spec"]["type"] = "ExternalName".into());
    scenario
        .until("the condition", |c| condition(c, SERVERLESS_SERVICE, "Ready").contains("ServiceIsExternal"))
        .await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn leaves_out_ready_activator_that_does_not_listen() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.unresponsive_activator();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    // At zero the slices may only contain the activator that listens.
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn probes_again_after_new_port_lease_or_protocol() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let before = scenario.cluster.probes();
    scenario.advance(MINUTE).await;
    assert_eq!(scenario.cluster.probes(), before, "probed again");
    scenario.cluster.edit(SERVICE, |service| service["spec"]["ports"][0]["appProtocol"] = "redis".into());
    scenario.settle().await;
    assert_eq!(scenario.cluster.probes(), before + 1);
    scenario.cluster.api.remove(SERVERLESS_SERVICE);
    scenario.settle().await;
    assert_eq!(scenario.cluster.probes(), before + 2, "the same port under another lease");
}

/// Garbage collection has not run yet when the same objects are created again.
#[tokio::test(start_paused = true)]
async fn adopts_objects_of_a_deleted_hpa_of_the_same_name() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let uids = |cluster: &Cluster| {
        [AUTOSCALER, METRIC, SERVERLESS_SERVICE, SLICE].map(|path| cluster.field(path, "/metadata/uid"))
    };
    let owner = |cluster: &Cluster, path: &str| cluster.field(path, "/metadata/ownerReferences/0/uid");
    let before = uids(&scenario.cluster);
    for (path, below) in [(HPA, AUTOSCALER), (AUTOSCALER, METRIC), (SERVERLESS_SERVICE, SLICE)] {
        let mut object = scenario.cluster.api.get(path).unwrap();
        scenario.cluster.api.remove(path);
        object["metadata"]["uid"] = format!("another-{path}").into();
        scenario.cluster.api.put(path, object);
        scenario.settle().await;
        let uid = scenario.cluster.field(path, "/metadata/uid");
        assert_eq!(owner(&scenario.cluster, below), uid);
        assert_eq!(scenario.cluster.field(below, "/metadata/ownerReferences/1"), Value::Null);
    }
    assert_eq!(
        owner(&scenario.cluster, SERVERLESS_SERVICE),
        scenario.cluster.field(AUTOSCALER, "/metadata/uid")
    );
    let after = uids(&scenario.cluster);
    assert_eq!((&after[1], &after[3]), (&before[1], &before[3]), "objects were created again");
}

#[tokio::test(start_paused = true)]
async fn pods_serve_until_a_port_is_free() {
    let mut scenario = Scenario::new(1);
    let ports: Vec<Value> = autoscaler::contract::LEASED_PORTS
        .map(|port| json!({"name": "", "servicePort": port, "activatorPort": port, "podPort": 8012}))
        .collect();
    scenario.cluster.api.put(
        PORT_HOLDER,
        json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
            "metadata": {"ownerReferences": [{"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "PodAutoscaler",
                "name": "port-holder", "uid": "u-1", "controller": true}]},
            "spec": {"service": "nowhere", "selector": "app=a", "mode": "Proxy", "numActivators": 2},
            "status": {"activators": 0, "ports": ports}}),
    );
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("False") && ready.contains("PortsExhausted"), "{ready}");
    scenario.decide_idle();
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.field(DEPLOYMENT, "/spec/replicas"), 1);
    scenario.cluster.api.remove(PORT_HOLDER);
    scenario.until("a free port", |c| !condition(c, AUTOSCALER, "Ready").contains("PortsExhausted")).await;
    scenario.until("activators in the path", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn pods_serve_a_workload_beyond_the_port_quota_of_its_namespace() {
    let mut scenario = Scenario::with_args(1, &["--ports-per-namespace", "1"]);
    let port = |name: &str, port| json!({"name": name, "port": port, "protocol": "TCP", "targetPort": 8012});
    set_ports(&scenario.cluster, json!([port("http", 80), port("admin", 81)]));
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("PortQuotaExceeded") && ready.contains("--ports-per-namespace"), "{ready}");
    scenario.decide_idle();
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    set_ports(&scenario.cluster, json!([port("http", 80)]));
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// The forger's object is first by name, and as old as the other.
#[tokio::test(start_paused = true)]
async fn forged_claim_does_not_take_a_leased_port() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let lease = |cluster: &Cluster, path: &str| cluster.field(path, "/status/ports/0/activatorPort");
    let leased = lease(&scenario.cluster, SERVERLESS_SERVICE);
    scenario.restart();
    let service = scenario.cluster.api.get(SERVICE).unwrap()["spec"].clone();
    scenario.cluster.api.put(FORGED_SERVICE, json!({"spec": service}));
    let forged = json!({"name": "http", "servicePort": 80, "activatorPort": leased, "podPort": 8012});
    scenario.cluster.api.put(
        FORGED,
        json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
            "spec": {"service": "forged", "selector": "app=forged", "mode": "Proxy", "numActivators": 2},
            "status": {"activators": 0, "ports": [forged]}}),
    );
    scenario.settle().await;
    assert_eq!(lease(&scenario.cluster, SERVERLESS_SERVICE), leased);
    assert_ne!(lease(&scenario.cluster, FORGED), leased);
}

#[tokio::test(start_paused = true)]
async fn keeps_service_of_a_user_that_has_the_private_name() {
    let mut scenario = Scenario::new(1);
    let spec = json!({"clusterIP": "10.96.0.77", "ipFamilies": ["IPv4"], "selector": {"app": "bank"},
        "ports": [{"name": "http", "port": 443, "protocol": "TCP"}]});
    scenario.cluster.api.put(PRIVATE, json!({"spec": spec}));
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("PrivateServiceTaken")).await;
    let message = ready(&scenario.cluster);
    assert!(message.contains("web-private") && message.contains("give Service"), "{message}");
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1], "scaled to zero");
    let kept = scenario.cluster.api.get(PRIVATE).unwrap();
    assert_eq!((&kept["spec"], &kept["metadata"]["ownerReferences"]), (&spec, &Value::Null));
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "not pods of the other Service");
    scenario.decide(1, None);
    scenario.cluster.api.remove(PRIVATE);
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}
