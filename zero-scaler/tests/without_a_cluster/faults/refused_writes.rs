//! Writes that the API server refuses: requests are served all the same, and the owner sees why.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use crate::harness::cluster::{
    ACTIVATOR, AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, condition,
};
use crate::harness::scenario::Scenario;

const QUOTA: &str = "is forbidden: exceeded quota: small";
const GROUP: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop";

/// Answers of which no two are equal, as those of a webhook with the time in them.
const TIMED: &str = "is forbidden: too early, at {request}";
/// Attempts in a minute after the first: each two seconds and then each five, less the jitter.
const RETRIES: usize = 26;

/// Number of writes to a path.
fn writes(scenario: &Scenario, path: &str) -> usize {
    scenario.cluster.api.writes().iter().filter(|write| write.ends_with(path)).count()
}

/// A workload of which this object is refused, with the path of the object with the event.
async fn refused(path: &str, reported: impl Fn(&Cluster) -> bool) -> Scenario {
    let mut scenario = Scenario::new(1);
    scenario.cluster.api.refuse_writes(path, Some(QUOTA));
    scenario.until("the report", reported).await;
    scenario.until("the event", |cluster| !cluster.events("WriteRefused").is_empty()).await;
    scenario
}

fn is_refused(object: &'static str) -> impl Fn(&Cluster) -> bool {
    move |cluster| {
        let ready = condition(cluster, object, "Ready");
        ready.contains("WriteRefused") && ready.contains(QUOTA)
    }
}

#[tokio::test(start_paused = true)]
async fn service_without_private_service_is_served_through_activators() {
    let mut scenario = refused("/api/v1/namespaces/shop/services", is_refused(SERVERLESS_SERVICE)).await;
    scenario.until("the condition", |cluster| condition(cluster, AUTOSCALER, "Ready").contains(QUOTA)).await;
    scenario.until("activators", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.decide_idle();
    scenario.advance(Duration::from_secs(900)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1], "its pods could not be found after zero");
    scenario.cluster.api.refuse_writes("/api/v1/namespaces/shop/services", None);
    scenario.until_at_zero().await;
}

#[tokio::test(start_paused = true)]
async fn refused_objects_of_a_workload_are_named_in_its_condition() {
    for path in [format!("{GROUP}/metrics"), format!("{GROUP}/serverlessservices")] {
        let mut scenario = refused(&path, is_refused(AUTOSCALER)).await;
        assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/reason"), "WriteRefused");
        scenario.cluster.api.refuse_writes(&path, None);
        scenario
            .until("Ready", |cluster| condition(cluster, AUTOSCALER, "Ready").starts_with("\"True\""))
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn refused_pod_autoscaler_is_an_event_on_the_hpa_and_retried_rarely() {
    let path = format!("{GROUP}/podautoscalers");
    let mut scenario = refused(&path, |_| true).await;
    let requests =
        |scenario: &Scenario| scenario.cluster.api.writes().iter().filter(|w| w.contains(&path)).count();
    scenario.advance(Duration::from_secs(600)).await;
    let before = requests(&scenario);
    scenario.advance(Duration::from_secs(600)).await;
    let retries = requests(&scenario) - before;
    assert!((1..=3).contains(&retries), "{retries}");
    assert_eq!(scenario.cluster.events("WriteRefused").len(), 1);
    scenario.cluster.api.refuse_writes(&path, None);
    scenario.until("the PodAutoscaler", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn failed_size_stays_the_status_and_is_retried_after_its_backoff() {
    for message in [QUOTA, TIMED] {
        let mut scenario = Scenario::new(1);
        scenario.until_serving().await;
        let scale = format!("{DEPLOYMENT}/scale");
        scenario.cluster.api.refuse_writes(&scale, Some(message));
        scenario.decide_idle();
        let is_reported =
            |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready").contains("ScaleNotWritten");
        scenario.until("the condition", is_reported).await;
        let (sizes, statuses) = (writes(&scenario, &scale), writes(&scenario, "podautoscalers/web/status"));
        for _ in 0..600 {
            scenario.advance(Duration::from_millis(100)).await;
            assert!(is_reported(&scenario.cluster), "{}", condition(&scenario.cluster, AUTOSCALER, "Ready"));
        }
        let sizes = writes(&scenario, &scale) - sizes;
        assert!((8..=RETRIES).contains(&sizes), "{sizes} attempts with {message}");
        let statuses = writes(&scenario, "podautoscalers/web/status") - statuses;
        let expected = if message == TIMED { sizes } else { 0 };
        assert!(statuses <= expected, "{statuses} statuses for {sizes} attempts with {message}");
        scenario.cluster.api.refuse_writes(&scale, None);
        scenario.until_at_zero().await;
        assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").contains("Idle"));
    }
}

/// A webhook denies with the status code of a conflict, in which a size is written again at once.
#[tokio::test(start_paused = true)]
async fn size_denied_with_the_code_of_a_conflict_is_reported_and_retried_after_its_backoff() {
    let denied = "admission webhook \"sizes\" denied the request: frozen";
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let scale = format!("{DEPLOYMENT}/scale");
    scenario.cluster.api.fail_writes(&scale, StatusCode::CONFLICT, denied);
    scenario.decide_idle();
    let is_reported = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready").contains("frozen");
    scenario.until("the condition", is_reported).await;
    let before = writes(&scenario, &scale);
    scenario.advance(Duration::from_secs(60)).await;
    let attempts = writes(&scenario, &scale) - before;
    assert!((8..=RETRIES).contains(&attempts), "{attempts}");
    scenario.cluster.api.refuse_writes(&scale, None);
    scenario.until_at_zero().await;
}

/// Its cause is as lasting as that of a refusal, and its end may be near.
#[tokio::test(start_paused = true)]
async fn webhook_that_cannot_be_called_is_reported_and_its_end_seen_within_a_minute() {
    let path = format!("{GROUP}/serverlessservices");
    let failed = "Internal error occurred: failed calling webhook \"guard\": failed to call webhook: \
                  Post \"https://guard.kube-system.svc:443/\": context deadline exceeded";
    let mut scenario = Scenario::new(1);
    scenario.cluster.api.fail_writes(&path, StatusCode::INTERNAL_SERVER_ERROR, failed);
    scenario
        .until("the condition", |cluster| {
            let ready = condition(cluster, AUTOSCALER, "Ready");
            ready.contains("WriteRefused") && ready.contains("guard")
        })
        .await;
    scenario.advance(Duration::from_secs(900)).await;
    assert_eq!(scenario.cluster.events("WriteRefused").len(), 1);
    scenario.cluster.api.refuse_writes(&path, None);
    scenario.advance(Duration::from_secs(61)).await;
    assert!(scenario.cluster.api.get(SERVERLESS_SERVICE).is_some());
}

#[tokio::test(start_paused = true)]
async fn failed_size_leaves_the_status_when_it_is_no_longer_wanted() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.refuse_writes(&format!("{DEPLOYMENT}/scale"), Some(QUOTA));
    scenario.decide_idle();
    let ready = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Ready");
    scenario.until("the condition", |cluster| ready(cluster).contains("ScaleNotWritten")).await;
    scenario.decide(1, None);
    scenario.until("Serving", |cluster| ready(cluster).contains("Serving")).await;
}

/// A policy allows no pods at night, say. The response to a held request has the reason from here.
#[tokio::test(start_paused = true)]
async fn wake_that_is_refused_is_the_start_failure_until_it_is_allowed() {
    let mut scenario = Scenario::at_zero().await;
    let scale = format!("{DEPLOYMENT}/scale");
    scenario.cluster.api.refuse_writes(&scale, Some(QUOTA));
    scenario.decide(1, None);
    scenario.poke();
    let failure = |cluster: &Cluster, of: &str| {
        cluster.field(SERVERLESS_SERVICE, &format!("/status/startFailure{of}")).to_string()
    };
    scenario.until("the message", |cluster| failure(cluster, "/message").contains(QUOTA)).await;
    assert!(failure(&scenario.cluster, "/cause").contains("PodsNotCreated"));
    scenario.until("the end of the patience", |cluster| failure(cluster, "/givenUp").contains("true")).await;
    assert!(condition(&scenario.cluster, AUTOSCALER, "PodsCanStart").contains(QUOTA));
    scenario.cluster.api.refuse_writes(&scale, None);
    scenario.until("a pod", |cluster| cluster.size() == 1).await;
    scenario.until("no failure", |cluster| failure(cluster, "").contains("null")).await;
}

/// Each attempt reports another message, and the status that has it is no reason for another.
#[tokio::test(start_paused = true)]
async fn refusals_of_which_no_two_are_equal_are_retried_after_their_backoff() {
    for path in [
        format!("{GROUP}/metrics"),
        format!("{GROUP}/serverlessservices"),
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse".to_owned(),
        "/api/v1/namespaces/shop/services".to_owned(),
        format!("{GROUP}/podautoscalers"),
    ] {
        let mut scenario = Scenario::new(1);
        scenario.cluster.api.refuse_writes(&path, Some(TIMED));
        scenario.advance(Duration::from_secs(60)).await;
        let before = scenario.cluster.api.writes().len();
        scenario.advance(Duration::from_secs(60)).await;
        let written = scenario.cluster.api.writes().split_off(before);
        assert!(written.len() <= RETRIES, "{path}: {} writes: {written:#?}", written.len());
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_one_service_are_refused_with_a_condition() {
    let path = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-rouse";
    let mut scenario = refused(path, is_refused(SERVERLESS_SERVICE)).await;
    scenario.cluster.api.refuse_writes(path, None);
    scenario.until_serving().await;
}

#[tokio::test(start_paused = true)]
async fn hpa_with_the_longest_name_of_the_api_goes_to_zero() {
    let mut scenario = Scenario::new(1);
    let name = format!("{}.example", "a".repeat(245));
    let hpa = scenario.cluster.api.get(HPA).unwrap();
    scenario.cluster.delete(HPA);
    let metadata = json!({"annotations": hpa["metadata"]["annotations"]});
    let path = HPA.replace("/web", &format!("/{name}"));
    scenario.cluster.api.put(&path, json!({"metadata": metadata, "spec": hpa["spec"]}));
    let sks = SERVERLESS_SERVICE.replace("/web", &format!("/{name}"));
    scenario.until("endpoints", |cluster| cluster.field(&sks, "/status/mode").is_string()).await;
    let labels = scenario.cluster.api.objects().into_iter().filter_map(|(_, object)| {
        Some(object.pointer("/metadata/labels/autoscaling.rouse.dev~1workload")?.as_str()?.to_owned())
    });
    let labels: Vec<String> = labels.collect();
    assert!(labels.len() >= 4 && labels.iter().all(|label| label.len() <= 63), "{labels:?}");
}
