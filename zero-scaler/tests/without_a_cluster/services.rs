//! Services as users write them: with a selector, with ports past the sidecar, with rules that no activator could keep, or none at all.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{
    ACTIVATOR, AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, SERVICE, condition,
};
use crate::story::Story;

const MINUTE: Duration = Duration::from_secs(60);
const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const HOARDER: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/hoarder";
const PRIVATE: &str = "/api/v1/namespaces/shop/services/web-private";
const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse-ipv4";

/// A workload whose Service selects its pods.
fn attached() -> Story {
    let story = Story::begin(1);
    story.cluster.attached();
    story
}

fn set_ports(cluster: &Cluster, ports: Value) {
    cluster.edit(SERVICE, |service| service["spec"]["ports"] = ports);
}

#[tokio::test(start_paused = true)]
async fn an_attached_service_is_added_to_while_it_sleeps_and_else_left_as_it_is() {
    let mut story = attached();
    story.tell().await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 2]);
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
    assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0", "10.0.0.1"]);
    assert_eq!(story.cluster.api.get(SLICE), None);
    let held = story.cluster.notes("Proxy").concat();
    assert!(held.contains("excess burst capacity is -211"), "{held}");
    let served = story.cluster.notes("Serve").concat();
    assert!(served.contains("excess burst capacity is 10"), "{served}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_led_past_us_while_it_sleeps_has_its_pods_back() {
    let mut story = attached();
    story.serving().await;
    story.at_zero().await;
    set_ports(&story.cluster, json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]));
    story.until("its pods alone", |cluster| cluster.behind_the_service() == ["10.0.0.0"]).await;
    story.settle().await;
    assert_eq!(story.cluster.api.get(SLICE), None);
    let ready = condition(&story.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("SidecarBypassed") && ready.contains("targetPort: queue-proxy"), "{ready}");
    story.pass(5 * MINUTE).await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 1], "and stays awake");
}

#[tokio::test(start_paused = true)]
async fn what_leads_past_the_sidecar_never_leads_to_an_activator() {
    let mut story = attached();
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"});
    set_ports(&story.cluster, json!([http, metrics]));
    story.serving().await;
    let ready = condition(&story.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("True") && ready.contains("SidecarBypassed") && ready.contains("9090"), "{ready}");
    assert_eq!(story.cluster.events("SidecarBypassed").len(), 1);
    story.idle();
    story.until("it sleeps", |cluster| cluster.size() == 0).await;
    assert_eq!(story.cluster.field(SLICE, "/ports/0/name"), "http");
    assert_eq!(story.cluster.field(SLICE, "/ports/1"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_target_that_a_managed_service_cannot_have_is_spoken_of() {
    let mut story = Story::begin(1);
    let metrics = json!({"name": "metrics", "port": 9090, "protocol": "TCP", "targetPort": 9090});
    let http = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8012});
    set_ports(&story.cluster, json!([http, metrics]));
    story.serving().await;
    let ready = condition(&story.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("TargetPortIgnored") && ready.contains("[9090]"), "{ready}");
    assert_eq!(story.cluster.events("TargetPortIgnored").len(), 1);
    assert_eq!(story.cluster.field(SLICE, "/ports/1/port"), 8012);
    // Of a single port there is no doubt; Kubernetes fills in its target.
    set_ports(&story.cluster, json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}]));
    story.until("nothing is said", |c| condition(c, AUTOSCALER, "Ready").contains("Serving")).await;
}

#[tokio::test(start_paused = true)]
async fn who_could_not_be_held_by_the_services_own_rules_stays_awake_and_is_told_what_to_change() {
    for (attach, field, rule, none, reason) in [
        (true, "sessionAffinity", "ClientIP", "None", "SessionAffinity"),
        (false, "internalTrafficPolicy", "Local", "Cluster", "InternalTrafficPolicyLocal"),
    ] {
        let mut story = if attach { attached() } else { Story::begin(1) };
        story.cluster.edit(SERVICE, |service| service["spec"][field] = rule.into());
        story.serving().await;
        story.idle();
        story.pass(5 * MINUTE).await;
        assert_eq!(story.cluster.seen().sizes, [1], "{reason}");
        let why = condition(&story.cluster, AUTOSCALER, "ActivatorInPath");
        assert!(why.contains(&format!("set the Service's {field} to {none}")), "{why}");
        assert!(condition(&story.cluster, AUTOSCALER, "Ready").contains(reason));
        assert_eq!(story.cluster.events(reason).len(), 1);
        if !attach {
            assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0"], "on each node its own pods");
        }
        story.cluster.edit(SERVICE, |service| service["spec"][field] = none.into());
        story.until("it may sleep", |cluster| cluster.size() == 0).await;
        story.settle().await;
        story.cluster.edit(SERVICE, |service| service["spec"][field] = rule.into());
        story.settle().await;
        // Who has no pod to stay with is led to an activator; on nodes that have none nobody is led anywhere.
        assert_eq!(story.cluster.size(), i64::from(!attach), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_not_there_is_waited_for_and_the_one_before_is_left() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "shop".into();
    });
    let said = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    story.until("it is said", |c| said(c).contains("there is no Service shop; make it")).await;
    story.settle().await;
    assert_eq!((story.cluster.api.get(SLICE), story.cluster.api.get(PRIVATE)), (None, None));
    let service = story.cluster.api.get(SERVICE).unwrap()["spec"].clone();
    story.cluster.api.put("/api/v1/namespaces/shop/services/shop", json!({"spec": service}));
    story.until("it is not missed any more", |c| !said(c).contains("ServiceNotFound")).await;
    // And back, from one that is there.
    story.settle().await;
    story.cluster.edit(HPA, |hpa| {
        hpa["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchLabels"]["service"] = "web".into();
    });
    story.until("its pods", |cluster| cluster.behind_the_service() == ["10.0.0.0"]).await;
    story.settle().await;
    let left = |(path, _): &(String, Value)| path.contains("/shop-");
    assert!(!story.cluster.api.objects().iter().any(left));
}

#[tokio::test(start_paused = true)]
async fn a_managed_service_that_is_given_a_selector_is_the_users_again() {
    let mut story = Story::begin(1);
    story.serving().await;
    story.cluster.attached();
    story.until("Kubernetes' slices alone", |c| c.slices() == [1] && c.api.get(SLICE).is_none()).await;
    story.settle().await;
    assert_eq!(story.cluster.api.get(PRIVATE), None);
    // Without ports for us there is nothing to add either.
    story.cluster.edit(SERVICE, |service| service["spec"]["type"] = "ExternalName".into());
    story
        .until("it is said", |c| condition(c, SERVERLESS_SERVICE, "Ready").contains("ServiceIsExternal"))
        .await;
    assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0"]);
}

#[tokio::test(start_paused = true)]
async fn an_activator_that_is_ready_and_does_not_listen_is_in_no_slice() {
    let mut story = Story::begin(1);
    story.cluster.deaf_activator();
    story.tell().await;
    assert_eq!(story.cluster.seen().sizes, [1, 0, 2]);
    // At zero only the one that listens may be there.
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_a_port_anew_or_speaks_something_else_there_is_asked_for_anew() {
    let mut story = Story::begin(1);
    story.serving().await;
    let asked = story.cluster.asked();
    story.pass(MINUTE).await;
    assert_eq!(story.cluster.asked(), asked, "once is enough");
    story.cluster.edit(SERVICE, |service| service["spec"]["ports"][0]["appProtocol"] = "redis".into());
    story.settle().await;
    assert_eq!(story.cluster.asked(), asked + 1);
    story.cluster.api.remove(SERVERLESS_SERVICE);
    story.settle().await;
    assert_eq!(story.cluster.asked(), asked + 2, "the same port, another lease");
}

/// Garbage collection comes late, for those who made the same anew.
#[tokio::test(start_paused = true)]
async fn what_an_hpa_left_behind_is_taken_over_by_the_next_of_its_name() {
    let mut story = Story::begin(1);
    story.serving().await;
    let uids = |cluster: &Cluster| {
        [AUTOSCALER, METRIC, SERVERLESS_SERVICE, SLICE].map(|path| cluster.field(path, "/metadata/uid"))
    };
    let owner = |cluster: &Cluster, path: &str| cluster.field(path, "/metadata/ownerReferences/0/uid");
    let before = uids(&story.cluster);
    for (path, below) in [(HPA, AUTOSCALER), (AUTOSCALER, METRIC), (SERVERLESS_SERVICE, SLICE)] {
        let mut object = story.cluster.api.get(path).unwrap();
        story.cluster.api.remove(path);
        object["metadata"]["uid"] = format!("another-{path}").into();
        story.cluster.api.put(path, object);
        story.settle().await;
        let uid = story.cluster.field(path, "/metadata/uid");
        assert_eq!(owner(&story.cluster, below), uid);
        assert_eq!(story.cluster.field(below, "/metadata/ownerReferences/1"), Value::Null);
    }
    assert_eq!(owner(&story.cluster, SERVERLESS_SERVICE), story.cluster.field(AUTOSCALER, "/metadata/uid"));
    let after = uids(&story.cluster);
    assert_eq!((&after[1], &after[3]), (&before[1], &before[3]), "nothing was made anew");
}

#[tokio::test(start_paused = true)]
async fn without_a_free_port_the_pods_serve_until_there_is_one() {
    let mut story = Story::begin(1);
    let ports: Vec<Value> = autoscaler::contract::LEASED_PORTS
        .map(|port| json!({"name": "", "servicePort": port, "activatorPort": port, "podPort": 8012}))
        .collect();
    story.cluster.api.put(
        HOARDER,
        json!({"apiVersion": "autoscaling.rouse.dev/v1alpha1", "kind": "ServerlessService",
            "spec": {"service": "nowhere", "selector": "app=a", "mode": "Proxy", "numActivators": 2},
            "status": {"activators": 0, "ports": ports}}),
    );
    story.serving().await;
    assert_eq!(story.cluster.behind_the_service(), ["10.0.0.0"]);
    let ready = condition(&story.cluster, AUTOSCALER, "Ready");
    assert!(ready.contains("False") && ready.contains("PortsExhausted"), "{ready}");
    story.idle();
    story.pass(2 * MINUTE).await;
    assert_eq!(story.cluster.field(DEPLOYMENT, "/spec/replicas"), 1);
    story.cluster.api.remove(HOARDER);
    story.until("it has one", |c| !condition(c, AUTOSCALER, "Ready").contains("PortsExhausted")).await;
    story.until("it sleeps", |cluster| cluster.behind_the_service() == [ACTIVATOR]).await;
    assert_eq!(story.cluster.seen().lost, Vec::<String>::new());
}
