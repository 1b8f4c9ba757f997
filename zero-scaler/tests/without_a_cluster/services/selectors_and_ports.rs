//! Services as users write them: with a selector, with ports past the sidecar, with rules that no activator could keep, or none at all.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::{
    ACTIVATOR, AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);
const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const HOARDER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/hoarder";
const PRIVATE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-ipv4";

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
async fn an_attached_service_is_added_to_while_it_sleeps_and_else_left_as_it_is() {
    let mut scenario = attached();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0", "10.0.0.1"]);
    assert_eq!(scenario.cluster.api.get(SLICE), None);
    let held = scenario.cluster.notes("Proxy").concat();
    assert!(held.contains("excess burst capacity is -211"), "{held}");
    let served = scenario.cluster.notes("Serve").concat();
    assert!(served.contains("excess burst capacity is 10"), "{served}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_led_past_us_while_it_sleeps_has_its_pods_back() {
    let mut scenario = attached();
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    set_ports(
        &scenario.cluster,
        json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]),
    );
    scenario.until("its pods alone", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.api.get(SLICE), None);
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("SidecarBypassed") && ready.contains("targetPort: queue-proxy"), "{ready}");
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1], "and stays awake");
}

#[tokio::test(start_paused = true)]
async fn what_leads_past_the_sidecar_never_leads_to_an_activator() {
    let mut scenario = attached();
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"});
    set_ports(&scenario.cluster, json!([http, metrics]));
    scenario.until_serving().await;
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("True") && ready.contains("SidecarBypassed") && ready.contains("9090"), "{ready}");
    assert_eq!(scenario.cluster.events("SidecarBypassed").len(), 1);
    scenario.decide_idle();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.field(SLICE, "/ports/0/name"), "http");
    assert_eq!(scenario.cluster.field(SLICE, "/ports/1"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_a_managed_service_cannot_have_is_spoken_of() {
    let mut scenario = Scenario::new(1);
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8012});
    set_ports(&scenario.cluster, json!([http, metrics]));
    scenario.until_serving().await;
    let ready = condition(&scenario.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("TargetPortIgnored") && ready.contains("[9090]"), "{ready}");
    assert_eq!(scenario.cluster.events("TargetPortIgnored").len(), 1);
    assert_eq!(scenario.cluster.field(SLICE, "/ports/1/port"), 8012);
    // Of a single port there is no doubt; Kubernetes fills in its target.
    set_ports(&scenario.cluster, json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]));
    scenario.until("nothing is said", |c| condition(c, AUTOSCALER, "Ready").contains("Serving")).await;
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_held_by_the_services_own_rules_stays_awake_and_is_told_what_to_change() {
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
        let why = condition(&scenario.cluster, AUTOSCALER, "ActivatorInPath");
        assert!(why.contains(&format!("set the Service's {field} to {none}")), "{why}");
        assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains(reason));
        assert_eq!(scenario.cluster.events(reason).len(), 1);
        if !attach {
            assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"], "on each node its own pods");
        }
        scenario.cluster.edit(SERVICE, |service| service["spec"][field] = none.into());
        scenario.until("it may sleep", |cluster| cluster.size() == 0).await;
        scenario.settle().await;
        scenario.cluster.edit(SERVICE, |service| service["spec"][field] = rule.into());
        scenario.settle().await;
        // Who has no pod to stay with is led to an activator; on nodes that have none nobody is led anywhere.
        assert_eq!(scenario.cluster.size(), i64::from(!attach), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_there_is_waited_for_and_the_one_before_is_left() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "shop".into();
    });
    let said = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("it is said", |c| said(c).contains("there is no Service shop; make it")).await;
    scenario.settle().await;
    assert_eq!((scenario.cluster.api.get(SLICE), scenario.cluster.api.get(PRIVATE)), (None, None));
    let service = scenario.cluster.api.get(SERVICE).unwrap()["spec"].clone();
    scenario.cluster.api.put("/api/v1/namespaces/shop/services/shop", json!({"spec": service}));
    scenario.until("it is not missed any more", |c| !said(c).contains("ServiceNotFound")).await;
    // And back, from one that is there.
    scenario.settle().await;
    scenario.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "web".into();
    });
    scenario.until("its pods", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.settle().await;
    let left = |(path, _): &(String, Value)| path.contains("/shop-");
    assert!(!scenario.cluster.api.objects().iter().any(left));
}

#[tokio::test(start_paused = true)]
async fn a_managed_service_that_is_given_a_selector_is_the_users_again() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.attached();
    scenario.until("Kubernetes' slices alone", |c| c.slices() == [1] && c.api.get(SLICE).is_none()).await;
    scenario.settle().await;
    assert_eq!(scenario.cluster.api.get(PRIVATE), None);
    // Without ports for us there is nothing to add either.
    scenario.cluster.edit(SERVICE, |service| service["spec"]["type"] = "ExternalName".into());
    scenario
        .until("it is said", |c| condition(c, SERVERLESS_SERVICE, "Ready").contains("ServiceIsExternal"))
        .await;
    assert_eq!(scenario.cluster.service_endpoints(), ["10.0.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn an_activator_that_is_ready_and_does_not_listen_is_in_no_slice() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.unresponsive_activator();
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    // At zero only the one that listens may be there.
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_a_port_anew_or_speaks_something_else_there_is_asked_for_anew() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let asked = scenario.cluster.probes();
    scenario.advance(MINUTE).await;
    assert_eq!(scenario.cluster.probes(), asked, "once is enough");
    scenario.cluster.edit(SERVICE, |service| service["spec"]["ports"][0]["appProtocol"] = "redis".into());
    scenario.settle().await;
    assert_eq!(scenario.cluster.probes(), asked + 1);
    scenario.cluster.api.remove(SERVERLESS_SERVICE);
    scenario.settle().await;
    assert_eq!(scenario.cluster.probes(), asked + 2, "the same port, another lease");
}

/// Garbage collection comes late, for those who made the same anew.
#[tokio::test(start_paused = true)]
async fn what_an_hpa_left_behind_is_taken_over_by_the_next_of_its_name() {
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
    assert_eq!((&after[1], &after[3]), (&before[1], &before[3]), "nothing was made anew");
}

#[tokio::test(start_paused = true)]
async fn without_a_free_port_the_pods_serve_until_there_is_one() {
    let mut scenario = Scenario::new(1);
    let ports: Vec<Value> = autoscaler::contract::LEASED_PORTS
        .map(|port| json!({"name": "", "servicePort": port, "activatorPort": port, "podPort": 8012}))
        .collect();
    scenario.cluster.api.put(
        HOARDER,
        json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
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
    scenario.cluster.api.remove(HOARDER);
    scenario.until("it has one", |c| !condition(c, AUTOSCALER, "Ready").contains("PortsExhausted")).await;
    scenario.until("it sleeps", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
