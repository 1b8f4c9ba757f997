//! The state of a learner in the decision stream and in the status of its PodAutoscaler.

#![allow(clippy::unwrap_used, reason = "a learner that cannot be stored has failed the test")]

use std::time::Duration;

use autoscaler::api::{LearningStatus, MAX_CHECKPOINT_BYTES};
use autoscaler::learning_report::{Checkpoint, LearningReport, Phase};
use autoscaler::settings::LearnTarget;
use learning::{AppSecond, Learner, LearnerState, LearningSpec, MissBudget, PodSecond};

/// A learner with evidence at every load: all bins of its curve are in use.
fn full_learner() -> Learner {
    let objective = Some(MissBudget(0.05));
    let mut learner =
        Learner::new(LearningSpec { user_target: 20.0, objective, ..LearningSpec::default() }, u64::MAX);
    for second in 0..6000_u32 {
        let load = 0.2 * 1.007_f64.powi(i32::try_from(second % 1300).unwrap());
        let completions = load * 9.000_000_1;
        let seconds = load * 1.000_000_1;
        let app = AppSecond { completions, seconds, misses: completions / 31.0, errors: completions / 97.0 };
        let age = Duration::from_secs(600);
        let pod = PodSecond {
            age,
            concurrency: load,
            arrivals: completions,
            app: Some(app),
            ..PodSecond::default()
        };
        learner.observe(Duration::from_secs(1_600_000_000 + u64::from(second)), &[pod, pod, pod]);
    }
    learner
}

fn report(checkpoint: Option<Checkpoint>) -> LearningReport {
    LearningReport {
        mode: LearnTarget::Recommend,
        user_target: 20.0,
        target: 8.0,
        backlog: 1.0,
        temporary_limit: None,
        long_requests: false,
        phase: Phase::Settled,
        confidence: 0.5,
        evidence: "5000 requests".to_owned(),
        pods_with_user_target: 2,
        pods_with_target: 5,
        changes: 3,
        reverts: 1,
        checkpoint,
    }
}

#[test]
fn checkpoint_of_a_full_learner_is_within_its_bound_and_restores_it() {
    let learner = full_learner();
    let state = learner.state(Duration::from_secs(1_600_006_000));
    let updated = serde_json::from_value("2026-11-23T20:00:00Z".into()).unwrap();
    let text = LearningStatus::new(&report(Checkpoint::of(&state)), updated).checkpoint.unwrap();
    // Twice the size, for numbers with more digits.
    assert!(text.len() <= MAX_CHECKPOINT_BYTES / 2, "{} bytes", text.len());
    let stored: LearnerState = serde_json::from_str(&text).unwrap();
    let now = Duration::from_secs(1_600_006_100);
    let spec =
        LearningSpec { user_target: 20.0, objective: Some(MissBudget(0.05)), ..LearningSpec::default() };
    let restored = Learner::restore(spec, u64::MAX, stored, now);
    assert_eq!(restored.learned().target, learner.learned().target);
}

#[test]
fn checkpoint_survives_the_decision_stream() {
    let state = Learner::new(LearningSpec::default(), 7).state(Duration::from_secs(1_600_000_000));
    let report = report(Checkpoint::of(&state));
    let json = serde_json::to_string(&report).unwrap();
    let received: LearningReport = serde_json::from_str(&json).unwrap();
    assert_eq!(received, report);
    assert_eq!(serde_json::from_str::<LearnerState>(received.checkpoint.unwrap().json()).unwrap(), state);
}
