//! LearningStatus: the learned target of a workload, in the status of its PodAutoscaler.
//!
//! Besides what users read it has the checkpoint from which a learner continues after a restart or
//! a change of leader. The Vertical Pod Autoscaler keeps its checkpoints in objects of their own;
//! here it is one string in an object that has a status anyway.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::quantity::{format_milli, milli_from_f64, parse_milli};
use crate::learning::{LearningReport, is_same_target};
use crate::scaling::readable::CompactNumber;
use crate::settings::LearnTarget;

/// Largest checkpoint, in bytes. A larger one is left out.
const MAX_CHECKPOINT_BYTES: usize = 16 * 1024;

/// The learned target of a workload, with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearningStatus {
    /// What happens with the learned target: Recommend changes no size, with Apply it is in force.
    // No enum in the schema: YAML 1.1, which kubectl reads, takes its value Off for a boolean.
    #[serde(default)]
    #[schemars(with = "String")]
    pub mode: LearnTarget,
    /// The learned target, as a quantity: concurrent requests that one pod should carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommended_target: Option<String>,
    /// What learning does at present: Observing, Exploring, Settled, Reverted, or Frozen with the
    /// reason in parentheses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// How much the evidence supports the target, in percent.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub confidence: i32,
    /// The evidence, and the pods that the target saves or adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time of this report. It is updated when the phase changes or the target changes by more
    /// than 1 %, otherwise at most each five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated: Option<Time>,
    /// State of learning as JSON, from which it continues after a restart of the metrics-adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}

// === impl LearningStatus ===

impl LearningStatus {
    /// The status of a report.
    pub fn new(report: &LearningReport, updated: Time) -> Self {
        Self {
            mode: report.mode,
            recommended_target: quantity(report.target),
            phase: Some(report.phase.to_string()),
            // `as` saturates, and is 0 for NaN.
            confidence: ((report.confidence * 100.0).round() as i32).clamp(0, 100),
            message: Some(message(report)),
            updated: Some(updated),
            checkpoint: checkpoint(report),
        }
    }

    /// The learned target; `None` without a positive one.
    pub fn target(&self) -> Option<f64> {
        let milli = parse_milli(self.recommended_target.as_deref()?).ok()?;
        (milli > 0).then(|| milli as f64 / 1000.0)
    }

    /// Whether a report has the same mode, phase and target as this status.
    pub fn is_like(&self, report: &LearningReport) -> bool {
        self.mode == report.mode
            && self.phase.as_deref() == Some(report.phase.to_string().as_str())
            && self.target().is_some_and(|target| is_same_target(report.target, target))
    }
}

/// A target as a quantity; at least a thousandth, so that it stays a divisor.
fn quantity(target: f64) -> Option<String> {
    Some(format_milli(milli_from_f64(target)?.max(1)))
}

/// The evidence with the pods that it saves or adds.
fn message(report: &LearningReport) -> String {
    let LearningReport { evidence, pods_with_user_target: user, pods_with_target: learned, .. } = report;
    let user_target = CompactNumber(report.user_target);
    let difference = i64::from(*learned) - i64::from(*user);
    let pods = if difference.abs() == 1 { "pod" } else { "pods" };
    let change = match difference {
        0 => "no change".to_owned(),
        1.. => format!("{difference} {pods} more"),
        _ => format!("{} {pods} fewer", -difference),
    };
    format!(
        "{evidence}; the present load needs {learned} with this target and {user} with {user_target}: {change}"
    )
}

fn checkpoint(report: &LearningReport) -> Option<String> {
    // A number that JSON does not have would make the state unreadable, not the status.
    let json = serde_json::to_string(report.checkpoint.as_ref()?).ok()?;
    (json.len() <= MAX_CHECKPOINT_BYTES).then_some(json)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::learning::{AppSecond, Learner, LearnerState, LearningSpec, MissBudget, Phase, PodSecond};

    /// A learner with evidence at every load: all bins of its curve are in use.
    fn full_learner() -> Learner {
        let objective = Some(MissBudget(0.05));
        let mut learner =
            Learner::new(LearningSpec { user_target: 20.0, objective, ..LearningSpec::default() }, u64::MAX);
        for second in 0..6000_u32 {
            let load = 0.2 * 1.007_f64.powi(i32::try_from(second % 1300).unwrap());
            let completions = load * 9.000_000_1;
            let seconds = load * 1.000_000_1;
            let app =
                AppSecond { completions, seconds, misses: completions / 31.0, errors: completions / 97.0 };
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

    fn report() -> LearningReport {
        LearningReport {
            mode: LearnTarget::Recommend,
            user_target: 20.0,
            target: 7.9996,
            phase: Phase::Settled,
            confidence: 0.874,
            evidence: "5000 requests at 7.90 a pod took 120 ms, 3.21 % missed the objective".to_owned(),
            pods_with_user_target: 8,
            pods_with_target: 20,
            changes: 3,
            reverts: 0,
            checkpoint: Some(full_learner().state(Duration::from_secs(1_600_006_000))),
        }
    }

    fn updated() -> Time {
        serde_json::from_value("2026-11-23T20:00:00Z".into()).unwrap()
    }

    #[test]
    fn status_has_quantity_percent_and_sentence() {
        let status = LearningStatus::new(&report(), updated());
        assert_eq!(status.recommended_target.as_deref(), Some("8"));
        assert_eq!((status.mode, status.phase.as_deref()), (LearnTarget::Recommend, Some("Settled")));
        assert_eq!((status.confidence, status.target()), (87, Some(8.0)));
        assert_eq!(
            status.message.unwrap(),
            "5000 requests at 7.90 a pod took 120 ms, 3.21 % missed the objective; the present load needs 20 with this \
             target and 8 with 20: 12 pods more"
        );
        let fewer = LearningReport { pods_with_target: 7, ..report() };
        assert!(LearningStatus::new(&fewer, updated()).message.unwrap().ends_with(": 1 pod fewer"));
    }

    #[test]
    fn status_differs_from_report_of_another_mode_phase_or_target() {
        let status = LearningStatus::new(&report(), updated());
        assert!(status.is_like(&report()));
        assert!(status.is_like(&LearningReport { target: 8.07, confidence: 0.0, ..report() }));
        assert!(!status.is_like(&LearningReport { target: 8.1, ..report() }));
        assert!(!status.is_like(&LearningReport { phase: Phase::Exploring, ..report() }));
        assert!(!status.is_like(&LearningReport { mode: LearnTarget::Apply, ..report() }));
        assert!(!LearningStatus::default().is_like(&report()));
    }

    #[test]
    fn target_without_number_is_left_out() {
        for (target, quantity) in
            [(f64::NAN, None), (0.0, Some("1m")), (-1.0, Some("1m")), (0.7, Some("700m"))]
        {
            let status = LearningStatus::new(&LearningReport { target, ..report() }, updated());
            assert_eq!(status.recommended_target.as_deref(), quantity, "{target}");
        }
    }

    #[test]
    fn checkpoint_of_a_full_learner_is_within_its_bound_and_restores_it() {
        let text = LearningStatus::new(&report(), updated()).checkpoint.unwrap();
        // Twice the size, for numbers with more digits.
        assert!(text.len() <= MAX_CHECKPOINT_BYTES / 2, "{} bytes", text.len());
        let state: LearnerState = serde_json::from_str(&text).unwrap();
        let now = Duration::from_secs(1_600_006_100);
        let learner = full_learner();
        let spec =
            LearningSpec { user_target: 20.0, objective: Some(MissBudget(0.05)), ..LearningSpec::default() };
        let restored = Learner::restore(spec, u64::MAX, state, now);
        assert_eq!(restored.learned().target, learner.learned().target);
    }
}
