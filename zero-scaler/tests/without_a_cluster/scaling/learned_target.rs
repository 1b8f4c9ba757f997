//! The learned target in the status of a PodAutoscaler, and its events.

use std::time::Duration;

use autoscaler::learning_report::{Checkpoint, LearningReport, Phase};
use autoscaler::settings::LearnTarget;
use learning::{Learner, LearningSpec};
use serde_json::Value;

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, TARGET};
use crate::harness::scenario::Scenario;

const LEARN_TARGET: &str = "autoscaling.rouse.dev/learn-target";
const LEARNED: &str = "/status/learning/recommendedTarget";

fn report(mode: LearnTarget, target: f64) -> LearningReport {
    let user_target = TARGET as f64;
    let learner = Learner::new(LearningSpec { user_target, ..LearningSpec::default() }, 1);
    LearningReport {
        mode,
        user_target,
        target,
        backlog: 1.0,
        temporary_limit: None,
        long_requests: false,
        phase: Phase::Settled,
        confidence: 0.5,
        evidence: "900 requests".to_owned(),
        pods_with_user_target: 4,
        pods_with_target: 3,
        changes: 1,
        reverts: 0,
        checkpoint: Checkpoint::of(&learner.state(Duration::from_secs(1_700_000_000))),
    }
}

fn learned(cluster: &Cluster) -> Value {
    cluster.field(AUTOSCALER, LEARNED)
}

#[tokio::test(start_paused = true)]
async fn recommendation_stays_in_the_status_without_an_adapter_until_learning_is_off() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.learn(Some(report(LearnTarget::Recommend, 13.0)));
    scenario.until("the recommendation", |cluster| learned(cluster) == "13").await;
    let field =
        |cluster: &Cluster, name: &str| cluster.field(AUTOSCALER, &format!("/status/learning/{name}"));
    assert_eq!(field(&scenario.cluster, "mode"), "Recommend");
    assert_eq!(field(&scenario.cluster, "phase"), "Settled");
    assert_eq!(field(&scenario.cluster, "confidence"), 50);
    let message = "900 requests; the present load needs 3 with this target and 4 with 10: 1 pod fewer";
    assert_eq!(field(&scenario.cluster, "message"), message);
    assert!(field(&scenario.cluster, "checkpoint").as_str().unwrap().starts_with('{'));

    scenario.learn(None);
    scenario.restart();
    scenario.settle().await;
    assert_eq!(learned(&scenario.cluster), "13", "a missing report changes nothing");

    scenario.cluster.edit(HPA, |hpa| hpa["metadata"]["annotations"][LEARN_TARGET] = "Off".into());
    scenario.until("no learning", |cluster| learned(cluster).is_null()).await;
    scenario.learn(Some(report(LearnTarget::Recommend, 13.0)));
    scenario.settle().await;
    assert!(learned(&scenario.cluster).is_null(), "a late report");
}

#[tokio::test(start_paused = true)]
async fn hpa_without_a_number_has_the_learned_target() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.edit(HPA, |hpa| {
        let external = &mut hpa["spec"]["metrics"][0]["external"];
        external["metric"]["name"] = "desired-replicas".into();
        external["target"]["averageValue"] = "1".into();
    });
    scenario.until_serving().await;
    scenario.learn(Some(report(LearnTarget::Apply, 8.25)));
    let target = |cluster: &Cluster| cluster.field(AUTOSCALER, "/status/target");
    scenario.until("the learned target", |cluster| target(cluster) == "concurrency: 8.25 (learned)").await;
}

#[tokio::test(start_paused = true)]
async fn event_on_the_hpa_reports_a_target_that_changed_by_more_than_a_fifth() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    for (mode, target) in [
        (LearnTarget::Recommend, 20.0),
        (LearnTarget::Recommend, 10.0),
        (LearnTarget::Apply, 10.5),
        (LearnTarget::Apply, 11.5),
        (LearnTarget::Apply, 12.2),
        (LearnTarget::Apply, 13.0),
    ] {
        scenario.learn(Some(report(mode, target)));
        scenario.settle().await;
    }
    let events = scenario.cluster.events("TargetLearned");
    let [event] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(event["regarding"]["kind"], "HorizontalPodAutoscaler");
    let note = event["note"].as_str().unwrap();
    let expected = "the learned target, which is in force, changed from 10 to 12200m: 900 requests; ";
    assert!(note.starts_with(expected), "{note}");

    scenario.restart();
    scenario.learn(Some(report(LearnTarget::Apply, 13.0)));
    scenario.settle().await;
    assert_eq!(scenario.cluster.events("TargetLearned").len(), 1, "the status has it");
    scenario.learn(Some(report(LearnTarget::Apply, 10.0)));
    scenario.settle().await;
    assert_eq!(scenario.cluster.events("TargetLearned").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn unchanged_report_costs_no_writes() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.learn(Some(report(LearnTarget::Recommend, 13.0)));
    scenario.settle().await;
    let before = scenario.cluster.api.requests().len();
    scenario.advance(Duration::from_secs(1200)).await;
    let writes = scenario.cluster.api.requests_since(before);
    let writes: Vec<_> = writes.into_iter().filter(|request| request.contains("/status")).collect();
    assert_eq!(writes, Vec::<String>::new());
}
