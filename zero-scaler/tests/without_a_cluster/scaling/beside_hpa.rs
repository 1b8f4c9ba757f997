//! Beside a stock HPA: it writes sizes between 1 and N, the zero-scaler writes at zero and ahead of
//! it in a panic, and neither reverses the other. The numbers are rows of the table of HPA vectors;
//! rows before 17 concern the HPA alone.

use std::time::Duration;

use serde_json::json;
use simulator::hpa::Behavior;
use zero_scaler::controllers::reconciler::RESYNC;

use crate::harness::cluster::{ACTIVATOR, AUTOSCALER, Cluster, HPA, condition};
use crate::harness::scenario::Scenario;

const MINUTE: Duration = Duration::from_secs(60);

fn like_the_kpa() -> Option<Behavior> {
    Some(Behavior::like_the_kpa(Duration::ZERO))
}

/// 17: the size of a panic stays until the panic ends, and then decreases by the HPA's policies.
#[tokio::test(start_paused = true)]
async fn panic_is_one_write_and_ends_by_hpa_policies() {
    let mut scenario = Scenario::with_hpa(1, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide_panic(20, 50.0);
    scenario.advance(MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 20]);
    scenario.decide(5, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 20, 10, 5]);
    assert_eq!(scenario.cluster.scale_writes(), 1);
}

/// 18: an HPA with a stabilization window of five minutes keeps the size of the panic for that
/// time.
#[tokio::test(start_paused = true)]
async fn stabilization_window_keeps_the_size_of_a_panic() {
    let mut scenario = Scenario::with_hpa(1, 50, Some(Behavior::like_the_kpa(5 * MINUTE)));
    scenario.until_serving().await;
    scenario.decide_panic(18, 50.0);
    scenario.advance(MINUTE).await;
    scenario.decide(5, None);
    scenario.advance(4 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 18]);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 18, 9, 5]);
    assert_eq!(scenario.cluster.scale_writes(), 1);
}

/// 19: an HPA without a behavior would scale a workload that just woke to its recommendation of
/// five minutes ago. This never happens, because a workload goes to zero only once the HPA's
/// recommendation is at its minimum.
#[tokio::test(start_paused = true)]
async fn wake_does_not_restore_recommendation_from_before_zero() {
    let mut scenario = Scenario::with_hpa(1, 50, None);
    scenario.until_serving().await;
    scenario.decide(9, None);
    scenario.advance(2 * MINUTE).await;
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario.settle().await;
    scenario.decide(3, None);
    scenario.advance(10 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 4, 8, 9, 1, 0, 3]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
}

/// 20: above the maximum the HPA corrects the size at once, and a panic does not exceed the
/// maximum.
#[tokio::test(start_paused = true)]
async fn leaves_size_above_the_maximum_to_the_hpa() {
    let mut scenario = Scenario::with_hpa(1, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.cluster.scale(60);
    scenario.decide_panic(70, 300.0);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 60, 50]);
    assert_eq!(scenario.cluster.scale_writes(), 0);
}

/// 21: below the minimum the HPA corrects it, too, so a wake goes to the minimum. 22: at zero the
/// HPA is disabled.
#[tokio::test(start_paused = true)]
async fn workload_at_zero_wakes_to_the_hpas_minimum() {
    let mut scenario = Scenario::with_hpa(2, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.until("the HPA's minimum", |cluster| cluster.size() == 2).await;
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario.advance(10 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 2, 0]);
    scenario.decide(1, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 2, 0, 2]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// 23: an HPA with `minReplicas: 0` goes to zero and back by itself. Activators hold requests
/// meanwhile, and the wake comes before the HPA's next sync, which agrees.
#[tokio::test(start_paused = true)]
async fn holds_and_wakes_for_hpa_that_scales_to_zero_itself() {
    let mut scenario = Scenario::with_hpa(0, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario.until("activators in the path", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.settle().await;
    scenario.decide(2, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert!(scenario.cluster.scale_writes() <= 2);
}

/// 24: the same HPA ignores a target that another client scaled to zero. The zero-scaler wakes it.
#[tokio::test(start_paused = true)]
async fn wakes_workload_that_a_user_scaled_to_zero() {
    let mut scenario = Scenario::with_hpa(0, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.cluster.scale(0);
    scenario.until("activators in the path", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
    scenario.decide(2, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.scale_writes(), 1);
}

/// 25: from Kubernetes 1.34 on, an HPA may overwrite the size of a panic with a value computed
/// before it. The zero-scaler writes it once more.
#[tokio::test(start_paused = true)]
async fn rewrites_once_the_size_of_a_panic_that_the_hpa_overwrote() {
    let mut scenario = Scenario::with_hpa(1, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide(4, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 4).await;
    scenario.decide_panic(12, 60.0);
    scenario.until("the size of the panic", |cluster| cluster.size() == 12).await;
    scenario.cluster.scale(6);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 4, 12, 6, 12]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
}

/// 26: two HPAs whose targets select the same pods are both disabled by their controller. Only the
/// HPA's status reports it.
#[tokio::test(start_paused = true)]
async fn condition_reports_hpa_that_its_controller_disabled() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let message = "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/other]";
    scenario.cluster.edit(HPA, |object| {
        object["status"]["conditions"] = json!([
            {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale"},
            {"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector", "message": message},
        ]);
    });
    scenario
        .until("the condition", |cluster| {
            let ready_condition = condition(cluster, AUTOSCALER, "HPAAccepted");
            ready_condition.starts_with(r#""False" "AmbiguousSelector""#) && ready_condition.contains(message)
        })
        .await;
    assert!(ready(&scenario).starts_with(r#""False" "AmbiguousSelector""#), "{}", ready(&scenario));
    scenario.cluster.edit(HPA, |object| object["status"]["conditions"] = json!([]));
    scenario
        .until("the condition to clear", |cluster| {
            condition(cluster, AUTOSCALER, "HPAAccepted").contains("Accepted\"")
        })
        .await;
    assert!(ready(&scenario).starts_with(r#""True""#), "{}", ready(&scenario));
}

fn ready(scenario: &Scenario) -> String {
    condition(&scenario.cluster, AUTOSCALER, "Ready")
}

#[tokio::test(start_paused = true)]
async fn reports_hpa_with_annotations_and_a_misspelt_metric() {
    let mut scenario = Scenario::new(1);
    let metric = |scenario: &Scenario, name: &str| {
        scenario
            .cluster
            .edit(HPA, |hpa| hpa["spec"]["metrics"][0]["external"]["metric"]["name"] = name.into());
    };
    metric(&scenario, "concurency");
    scenario.until("the event", |cluster| !cluster.events("NoMetric").is_empty()).await;
    scenario.advance(10 * MINUTE).await;
    let [note] = &scenario.cluster.notes("NoMetric")[..] else { panic!("one event") };
    assert!(note.contains("no metric of Rouse") && note.contains("use the metric concurrency"), "{note}");
    metric(&scenario, "concurrency");
    scenario.until("the PodAutoscaler", |cluster| cluster.api.get(AUTOSCALER).is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn repeats_warning_for_rejected_hpa_until_it_is_fixed() {
    let mut scenario = Scenario::new(1);
    let good = scenario.cluster.field(HPA, "/spec/metrics");
    scenario.cluster.edit(HPA, |object| {
        object["spec"]["metrics"][0]["external"]["target"] = json!({"type": "Value", "value": "10"});
    });
    let warnings = |cluster: &Cluster| cluster.events("TargetNotAverageValue");
    scenario.until("the event", |cluster| warnings(cluster).len() == 1).await;
    // Without a PodAutoscaler there is no condition to report it. Events expire after an hour.
    assert!(scenario.cluster.api.get(AUTOSCALER).is_none());
    scenario.advance(RESYNC + MINUTE).await;
    let [_, event] = warnings(&scenario.cluster).try_into().unwrap();
    assert_eq!(
        (&event["type"], &event["regarding"]["kind"]),
        (&json!("Warning"), &json!("HorizontalPodAutoscaler"))
    );
    assert_eq!(
        (&event["regarding"]["name"], &event["regarding"]["namespace"]),
        (&json!("web"), &json!("shop"))
    );
    assert!(event["note"].as_str().unwrap().contains("use type: AverageValue"), "{event}");
    scenario.cluster.edit(HPA, |object| object["spec"]["metrics"] = good);
    scenario.until_serving().await;
    scenario.advance(RESYNC + MINUTE).await;
    assert_eq!(warnings(&scenario.cluster).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn scales_on_but_not_ready_when_hpa_is_rejected_later() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let other = HPA.replace("/web", "/other");
    scenario.cluster.api.put(&other, scenario.cluster.api.get(HPA).unwrap());
    scenario
        .until("the condition", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("MultipleHPAs"))
        .await;
    assert!(ready(&scenario).contains("delete one of the two"), "{}", ready(&scenario));
    scenario.decide_panic(4, 10.0);
    scenario.until("the size of the panic", |cluster| cluster.size() == 4).await;
    scenario.cluster.api.remove(&other);
    scenario
        .until("the condition to clear", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").starts_with(r#""True""#)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn deleting_an_hpa_causes_no_warning() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.remove(HPA);
    // Garbage collection deletes what it owns a little later.
    scenario.advance(Duration::from_secs(5)).await;
    assert_eq!(scenario.cluster.events("NotReady").len(), 0);
    assert!(ready(&scenario).starts_with(r#""True""#), "{}", ready(&scenario));
}

#[tokio::test(start_paused = true)]
async fn manages_hpa_with_invalid_annotations() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.edit(HPA, |object| {
        object["metadata"]["annotations"]["autoscaling.rouse.dev/scale-to-zero"] = "yes".into();
        object["metadata"]["annotations"]["autoscaling.rouse.dev/container-concurrency"] = "many".into();
    });
    scenario.until_serving().await;
    let accepted = condition(&scenario.cluster, AUTOSCALER, "HPAAccepted");
    assert!(accepted.starts_with(r#""True" "BadSetting""#) && accepted.contains("0 to 1000"), "{accepted}");
    assert_eq!(scenario.cluster.events("BadSetting").len(), 1);
    scenario.decide_idle();
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/reason"), "ScaleToZeroDisabled");
}
