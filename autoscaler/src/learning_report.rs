//! LearningReport: the learned target of one workload with its evidence, as part of its decision.
//!
//! The metrics-adapter fills it from a learner of the crate `learning`. The zero-scaler writes it
//! to the status of the PodAutoscaler, from which the learner of a new leader is restored.

mod checkpoint;
mod phase;

use serde::{Deserialize, Serialize};

pub use checkpoint::Checkpoint;
pub use phase::{FreezeReason, Phase};

use crate::settings::LearnTarget;

/// Relative change of a target that is reported at once.
const CHANGE: f64 = 0.01;

/// A learned target with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LearningReport {
    /// What happens with the learned target.
    pub mode: LearnTarget,
    pub user_target: f64,
    /// The learned one: in force with [`LearnTarget::Apply`], else recommended.
    pub target: f64,
    /// Factor on the target for the decider, at least 1.
    #[serde(default = "no_backlog", skip_serializing_if = "is_no_backlog")]
    pub backlog: f64,
    /// Requests that a pod without a container concurrency may have at a time, for some minutes
    /// after a kill for its memory. Of adapters of earlier versions always `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_limit: Option<u32>,
    /// What learning does at present.
    pub phase: Phase,
    /// Whether the first target, which is no number of the user, stays because requests are too
    /// long. Of adapters of earlier versions always false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub long_requests: bool,
    /// From 0 (none) to 1: how much the evidence supports the target.
    pub confidence: f64,
    /// The evidence in words.
    pub evidence: String,
    /// Pods that the present load needs with the user's target.
    pub pods_with_user_target: u32,
    /// Pods that it needs with the learned one.
    pub pods_with_target: u32,
    /// Changes of the target in this process.
    pub changes: u64,
    /// Those of them that restored an earlier target.
    pub reverts: u64,
    /// The state from which a learner is restored. `None` in a snapshot of the decision stream,
    /// which has the reports of all workloads in one message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

// === impl LearningReport ===

impl LearningReport {
    /// A copy without the checkpoint, which is not copied first.
    #[must_use]
    pub fn without_checkpoint(&self) -> Self {
        Self { evidence: self.evidence.clone(), checkpoint: None, ..*self }
    }

    /// Whether another report has the same mode, phase and limit, and nearly the same target. Other
    /// differences can wait.
    pub fn is_like(&self, other: &Self) -> bool {
        let essence =
            |report: &Self| (report.mode, report.phase, report.long_requests, report.temporary_limit);
        essence(self) == essence(other) && is_same_target(self.target, other.target)
    }
}

fn no_backlog() -> f64 {
    1.0
}

// By reference, as serde needs it.
fn is_no_backlog(backlog: &f64) -> bool {
    *backlog == no_backlog()
}

/// Whether two targets differ by at most one percent.
pub fn is_same_target(a: f64, b: f64) -> bool {
    (a - b).abs() <= CHANGE * b.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> LearningReport {
        LearningReport {
            mode: LearnTarget::Recommend,
            user_target: 20.0,
            target: 8.0,
            backlog: 2.5,
            temporary_limit: Some(5),
            phase: Phase::Frozen(FreezeReason::Gap),
            long_requests: true,
            confidence: 0.5,
            evidence: "5000 requests".to_owned(),
            pods_with_user_target: 2,
            pods_with_target: 5,
            changes: 3,
            reverts: 1,
            checkpoint: Checkpoint::of(&serde_json::json!({"epoch": u64::MAX, "target": 8.25})),
        }
    }

    #[test]
    fn report_survives_the_decision_stream() {
        let json = serde_json::to_string(&report()).unwrap();
        assert_eq!(serde_json::from_str::<LearningReport>(&json).unwrap(), report());
    }

    #[test]
    fn only_mode_phase_limit_and_target_make_reports_unlike() {
        let later = LearningReport { confidence: 1.0, evidence: String::new(), changes: 9, ..report() };
        assert!(report().is_like(&later));
        assert!(report().is_like(&LearningReport { target: 8.07, ..report() }));
        assert!(!report().is_like(&LearningReport { target: 8.1, ..report() }));
        assert!(!report().is_like(&LearningReport { target: f64::NAN, ..report() }));
        assert!(!report().is_like(&LearningReport { phase: Phase::Settled, ..report() }));
        assert!(!report().is_like(&LearningReport { mode: LearnTarget::Apply, ..report() }));
        assert!(!report().is_like(&LearningReport { temporary_limit: None, ..report() }));
        assert!(!report().is_like(&LearningReport { long_requests: false, ..report() }));
    }
}
