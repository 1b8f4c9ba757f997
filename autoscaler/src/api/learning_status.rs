//! LearningStatus: the learned target of a workload, in the status of its PodAutoscaler.
//!
//! Besides what users read it has the checkpoint from which a learner continues after a restart or
//! a change of leader. The Vertical Pod Autoscaler keeps its checkpoints in objects of their own;
//! here it is one string in an object that has a status anyway.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::contract::quantity::{format_milli, milli_from_f64, parse_milli};
use crate::learning_report::{LearningReport, is_same_target};
use crate::scaling::readable::CompactNumber;
use crate::settings::LearnTarget;

/// Largest checkpoint, in bytes. A larger one is left out.
pub const MAX_CHECKPOINT_BYTES: usize = 16 * 1024;

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
    let json = report.checkpoint.as_ref()?.json();
    (json.len() <= MAX_CHECKPOINT_BYTES).then(|| json.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learning_report::{Checkpoint, Phase};

    fn report() -> LearningReport {
        LearningReport {
            mode: LearnTarget::Recommend,
            user_target: 20.0,
            target: 7.9996,
            backlog: 1.0,
            temporary_limit: None,
            phase: Phase::Settled,
            long_requests: false,
            confidence: 0.874,
            evidence: "5000 requests at 7.90 a pod took 120 ms, 3.21 % missed the objective".to_owned(),
            pods_with_user_target: 8,
            pods_with_target: 20,
            changes: 3,
            reverts: 0,
            checkpoint: Checkpoint::of(&[1.5]),
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
    fn checkpoint_is_stored_unchanged_unless_it_is_too_large() {
        let stored = |bytes: usize| {
            let checkpoint = Checkpoint::of(&"7".repeat(bytes - 2));
            LearningStatus::new(&LearningReport { checkpoint, ..report() }, updated()).checkpoint
        };
        assert_eq!(stored(MAX_CHECKPOINT_BYTES).unwrap().len(), MAX_CHECKPOINT_BYTES);
        assert_eq!(stored(MAX_CHECKPOINT_BYTES + 1), None);
        assert_eq!(LearningStatus::new(&report(), updated()).checkpoint.as_deref(), Some("[1.5]"));
    }
}
