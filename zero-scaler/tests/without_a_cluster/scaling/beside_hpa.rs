//! Next to a stock HPA: between 1 and N it writes, at zero and ahead of it we do, and neither takes back what the other wrote.
//! Numbers are rows of our table of HPA vectors; those before 17 are about the HPA alone.

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

/// 17: what was written ahead of the HPA stays for as long as the panic, and then goes by the HPA's own policies.
#[tokio::test(start_paused = true)]
async fn a_panic_is_one_write_of_ours_and_ends_without_a_cliff() {
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

/// 18: an HPA that remembers its proposals of five minutes keeps the panic's size for as long; we neither help nor hinder.
#[tokio::test(start_paused = true)]
async fn a_stabilization_window_holds_the_size_of_a_panic() {
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

/// 19: an HPA without behavior would give a workload that just woke what it wanted five minutes ago. It never does, because nobody
/// sleeps before the HPA rests.
#[tokio::test(start_paused = true)]
async fn what_an_hpa_wanted_before_the_sleep_does_not_come_back_with_the_wake() {
    let mut scenario = Scenario::with_hpa(1, 50, None);
    scenario.until_serving().await;
    scenario.decide(9, None);
    scenario.advance(2 * MINUTE).await;
    scenario.decide_idle();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    scenario.settle().await;
    scenario.decide(3, None);
    scenario.advance(10 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 4, 8, 9, 1, 0, 3]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
}

/// 20: above the maximum the HPA corrects at once, and no panic takes it back there.
#[tokio::test(start_paused = true)]
async fn a_size_above_the_maximum_is_the_hpas_to_correct() {
    let mut scenario = Scenario::with_hpa(1, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.cluster.scale(60);
    scenario.decide_panic(70, 300.0);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 60, 50]);
    assert_eq!(scenario.cluster.scale_writes(), 0);
}

/// 21: below the minimum it does too; so a wake goes to the minimum, and leaves it nothing to correct. 22: at zero it is parked.
#[tokio::test(start_paused = true)]
async fn a_sleeper_is_left_alone_by_the_hpa_and_wakes_at_the_minimum() {
    let mut scenario = Scenario::with_hpa(2, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.until("the HPA's minimum", |cluster| cluster.size() == 2).await;
    scenario.decide_idle();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    scenario.advance(10 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 2, 0]);
    scenario.decide(1, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 2, 0, 2]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// 23: an HPA with `minReplicas: 0` goes to zero and comes back by itself. We hold what comes meanwhile, and wake before its next
/// sync; it agrees.
#[tokio::test(start_paused = true)]
async fn an_hpa_that_goes_to_zero_itself_is_held_for_and_woken() {
    let mut scenario = Scenario::with_hpa(0, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.until("it sleeps", |cluster| cluster.size() == 0).await;
    scenario.until("requests are held", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.settle().await;
    scenario.decide(2, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert!(scenario.cluster.scale_writes() <= 2);
}

/// 24: the same HPA leaves alone a target that somebody else put to zero. We do not.
#[tokio::test(start_paused = true)]
async fn a_workload_that_a_person_put_to_zero_is_woken_where_it_may_sleep() {
    let mut scenario = Scenario::with_hpa(0, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide_idle();
    scenario.cluster.scale(0);
    scenario.until("requests are held", |cluster| cluster.service_endpoints() == [ACTIVATOR]).await;
    scenario.advance(5 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0]);
    scenario.decide(2, None);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.scale_writes(), 1);
}

/// 25: from 1.34 on an HPA writes what it had computed over what we wrote meanwhile. Ours is written once more.
#[tokio::test(start_paused = true)]
async fn a_panics_size_that_a_late_hpa_overwrote_is_written_again_once() {
    let mut scenario = Scenario::with_hpa(1, 50, like_the_kpa());
    scenario.until_serving().await;
    scenario.decide(4, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 4).await;
    scenario.decide_panic(12, 60.0);
    scenario.until("ahead of the HPA", |cluster| cluster.size() == 12).await;
    scenario.cluster.scale(6);
    scenario.advance(2 * MINUTE).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 4, 12, 6, 12]);
    assert_eq!(scenario.cluster.scale_writes(), 2);
}

/// 26: two HPAs whose targets have the same pods are both given up by their controller. Nobody but the HPA's status says so.
#[tokio::test(start_paused = true)]
async fn an_hpa_that_its_controller_gave_up_says_so_in_the_condition() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let words = "pods by selector app=web are controlled by multiple HPAs: [shop/web shop/other]";
    scenario.cluster.edit(HPA, |object| {
        object["status"]["conditions"] = json!([
            {"type": "AbleToScale", "status": "True", "reason": "SucceededGetScale"},
            {"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector", "message": words},
        ]);
    });
    scenario
        .until("it is said", |cluster| {
            let said = condition(cluster, AUTOSCALER, "HPAAccepted");
            said.starts_with(r#""False" "AmbiguousSelector""#) && said.contains(words)
        })
        .await;
    assert!(ready(&scenario).starts_with(r#""False" "AmbiguousSelector""#), "{}", ready(&scenario));
    scenario.cluster.edit(HPA, |object| object["status"]["conditions"] = json!([]));
    scenario
        .until("it is taken back", |cluster| {
            condition(cluster, AUTOSCALER, "HPAAccepted").contains("Accepted\"")
        })
        .await;
    assert!(ready(&scenario).starts_with(r#""True""#), "{}", ready(&scenario));
}

fn ready(scenario: &Scenario) -> String {
    condition(&scenario.cluster, AUTOSCALER, "Ready")
}

#[tokio::test(start_paused = true)]
async fn an_hpa_that_is_refused_is_told_so_for_as_long_as_it_is() {
    let mut scenario = Scenario::new(1);
    let good = scenario.cluster.field(HPA, "/spec/metrics");
    scenario.cluster.edit(HPA, |object| {
        object["spec"]["metrics"][0]["external"]["target"] = json!({"type": "Value", "value": "10"});
    });
    let told = |cluster: &Cluster| cluster.events("TargetNotAverageValue");
    scenario.until("it is told", |cluster| told(cluster).len() == 1).await;
    // Nobody else can say it: there is no PodAutoscaler. And events are kept for an hour.
    assert!(scenario.cluster.api.get(AUTOSCALER).is_none());
    scenario.advance(RESYNC + MINUTE).await;
    let [_, event] = told(&scenario.cluster).try_into().unwrap();
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
    assert_eq!(told(&scenario.cluster).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_workload_whose_hpa_is_refused_later_goes_on_and_is_not_ready() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    let other = HPA.replace("/web", "/other");
    scenario.cluster.api.put(&other, scenario.cluster.api.get(HPA).unwrap());
    scenario.until("it is said", |cluster| condition(cluster, AUTOSCALER, "Ready").contains("TwoHPAs")).await;
    assert!(ready(&scenario).contains("delete one of the two"), "{}", ready(&scenario));
    scenario.decide_panic(4, 10.0);
    scenario.until("it is scaled all the same", |cluster| cluster.size() == 4).await;
    scenario.cluster.api.remove(&other);
    scenario
        .until("it is taken back", |cluster| condition(cluster, AUTOSCALER, "Ready").starts_with(r#""True""#))
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_deletes_an_hpa_is_not_warned_that_there_is_none() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.cluster.api.remove(HPA);
    // What it owns goes a little later.
    scenario.advance(Duration::from_secs(5)).await;
    assert_eq!(scenario.cluster.events("NotReady").len(), 0);
    assert!(ready(&scenario).starts_with(r#""True""#), "{}", ready(&scenario));
}

#[tokio::test(start_paused = true)]
async fn bad_annotations_keep_no_hpa_from_being_followed() {
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
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/status/notAtZero"), "ScaleToZeroOff");
}
