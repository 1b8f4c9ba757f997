//! LearnedTargetReport: the part of a WhyReport about learning.

use std::fmt::Write as _;

use autoscaler::learning_report::LearningReport;
use learning::{LearnerState, TargetBasis, WorkloadLearning};
use serde_json::{Value, json};

use crate::decisions::decision_history::TargetChange;
use crate::external_metrics::value::MetricValues;
use crate::external_metrics::why::target_basis;
use crate::external_metrics::why::utc::time;
use crate::learning::target_in_force::TargetInForce;
use crate::watches::workloads::Workload;
use autoscaler::scaling::readable::CompactNumber;

/// The learned target of a workload, and how it came about.
#[derive(Debug)]
pub(super) struct LearnedTargetReport {
    learning: WorkloadLearning,
    user_target: f64,
    /// Of the newest decision; `None` before the first one with a ready pod.
    report: Option<LearningReport>,
    in_force: Option<TargetInForce>,
    /// `None` without a state, or with one of a later version.
    basis: Option<TargetBasis>,
    changes: Vec<TargetChange>,
}

// === impl LearnedTargetReport ===

impl LearnedTargetReport {
    /// `None` if learning is off.
    pub(super) fn new(values: &MetricValues, workload: &Workload) -> Option<Self> {
        let newest = values.decisions.get(&workload.key);
        let in_force = newest.as_ref().and_then(|decision| TargetInForce::of_decision(workload, decision));
        let learning = workload.learning?;
        let report = newest.and_then(|decision| decision.learning).map(|report| *report);
        Some(Self {
            learning,
            user_target: workload.spec.target,
            basis: report.as_ref().and_then(state).map(|state| state.basis(&learning.spec)),
            report,
            in_force,
            changes: values.history.target_changes(&workload.key),
        })
    }

    pub(super) fn json(&self) -> Value {
        let report = self.report.as_ref().map(|report| {
            json!({
                "target": report.target,
                "phase": report.phase.to_string(),
                "confidence": report.confidence,
                "evidence": report.evidence,
                "podsWithUserTarget": report.pods_with_user_target,
                "podsWithTarget": report.pods_with_target,
                "changes": report.changes,
                "reverts": report.reverts,
                "basis": self.basis.as_ref().map(target_basis::json),
            })
        });
        json!({
            "mode": format!("{:?}", self.learning.mode),
            "targetInForce": self.target_in_force(),
            "learned": report,
            "lastChanges": self.changes.iter().map(change).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mode = self.learning.mode;
        let Some(report) = &self.report else {
            return format!("learning ({mode:?}): no data of a ready pod yet\n");
        };
        let mut text = format!("learning ({mode:?}): {}\n", self.comparison(report));
        let LearningReport { phase, confidence, evidence, changes, reverts, .. } = report;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "  {phase}, confidence {:.0} %, {changes} changes, {reverts} reverted: {evidence}",
            confidence * 100.0
        );
        text.push_str(&self.basis.as_ref().map_or_else(String::new, target_basis::text));
        for TargetChange { at, from, to, phase } in &self.changes {
            let (from, to) = (CompactNumber(*from), CompactNumber(*to));
            let _ = writeln!(text, "  {} target {from} → {to}, {phase}", time(*at));
        }
        text
    }

    fn comparison(&self, report: &LearningReport) -> String {
        let (user, learned) = (CompactNumber(self.user_target), CompactNumber(report.target));
        let (pods, user_pods) = (report.pods_with_target, report.pods_with_user_target);
        match self.in_force {
            Some(_) if !self.is_given() => format!(
                "target {learned} is in force, {pods} pods; without a given target it began at {user}, which would be \
                 {user_pods} pods"
            ),
            Some(_) => format!(
                "target {learned} is in force, {pods} pods; the value above is the load × {user} / {learned}, for \
                 an HPA with target {user}, which alone would be {user_pods} pods"
            ),
            None if report.target == self.user_target && self.is_given() => {
                format!("target {learned}, as given")
            }
            None if report.target == self.user_target => {
                format!("target {learned}, from which learning begins without a given one")
            }
            None => {
                format!("target {user} is in force, {user_pods} pods; {learned} is recommended, {pods} pods")
            }
        }
    }

    /// Whether the user named a target.
    fn is_given(&self) -> bool {
        self.learning.spec.factor.is_some()
    }

    fn target_in_force(&self) -> f64 {
        self.in_force.map_or(self.user_target, TargetInForce::get)
    }
}

fn state(report: &LearningReport) -> Option<LearnerState> {
    serde_json::from_str(report.checkpoint.as_ref()?.json()).ok()
}

fn change(change: &TargetChange) -> Value {
    let TargetChange { at, from, to, phase } = change;
    json!({"at": time(*at), "from": from, "to": to, "phase": phase.to_string()})
}
