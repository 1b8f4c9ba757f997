//! What the zero-scaler reports in the conditions of a PodAutoscaler.

use autoscaler::api::{condition, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::check::cluster_version::ClusterVersion;
use crate::check::finding::{Finding, Severity};
use crate::check::workload_objects::WorkloadObjects;

/// Conditions that report a problem, with the status in which they do. HPAAccepted has advice in
/// status True as well.
const CONDITIONS: [(&str, &[&str], Severity); 5] = [
    ("Ready", &["False"], Severity::Error),
    ("PodsCanStart", &["False"], Severity::Error),
    ("HPAAccepted", &["False", "True"], Severity::Warning),
    ("Degraded", &["True"], Severity::Warning),
    ("ActivatorInPath", &["False"], Severity::Warning),
];

/// A condition that reports a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedProblem<'a> {
    severity: Severity,
    reason: &'a str,
    message: &'a str,
    /// What to change.
    pub fix: String,
}

/// Seconds in which a new PodAutoscaler gets its first status.
const FIRST_STATUS: i64 = 60;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(status) = workload.autoscaler.as_ref().and_then(|it| it.status.as_ref()) else {
        return without_status(workload).into_iter().collect();
    };
    let object = format!("PodAutoscaler {}", workload.key);
    let finding = |problem: ReportedProblem<'_>| Finding {
        severity: problem.severity,
        object: object.clone(),
        reason: problem.reason.to_owned(),
        problem: problem.message.to_owned(),
        fix: problem.fix,
    };
    problems(&status.conditions, workload.shared.version).into_iter().map(finding).collect()
}

fn without_status(workload: &WorkloadObjects) -> Option<Finding> {
    let created = workload.autoscaler.as_ref()?.metadata.creation_timestamp.as_ref()?.0;
    let age = workload.shared.now.as_second().saturating_sub(created.as_second());
    (age > FIRST_STATUS).then(|| {
        let problem = format!("it was created at {created} and has no status: no zero-scaler reconciles it");
        let fix = "see the logs of Deployment zero-scaler";
        Finding::error(format!("PodAutoscaler {}", workload.key), "NotReconciled", problem, fix)
    })
}

/// The problems that conditions report, each reason once.
pub fn problems(conditions: &[Condition], version: ClusterVersion) -> Vec<ReportedProblem<'_>> {
    let mut problems: Vec<ReportedProblem<'_>> = Vec::new();
    for (kind, ..) in CONDITIONS {
        let reported = condition(conditions, kind).and_then(|condition| problem(condition, version));
        if let Some(problem) = reported
            && problems.iter().all(|known| known.reason != problem.reason)
        {
            problems.push(problem);
        }
    }
    problems
}

/// The problem that a condition reports; `None` if there is nothing to fix.
pub fn problem(condition: &Condition, version: ClusterVersion) -> Option<ReportedProblem<'_>> {
    let (_, statuses, severity) = CONDITIONS.into_iter().find(|(kind, ..)| *kind == condition.type_)?;
    let (reason, message) = cause(condition);
    // The API server drops the field before 1.35, so nothing can be changed.
    let is_beyond_reach = reason == "ToleranceNotZero" && !version.has_tolerance();
    if !statuses.contains(&condition.status.as_str()) || is_beyond_reach {
        return None;
    }
    let fix = reasons::fix(reason).unwrap_or("see docs/reference/conditions.md").to_owned();
    (!fix.is_empty()).then_some(ReportedProblem { severity, reason, message, fix })
}

/// Reason and message. A workload whose ServerlessService is not ready repeats that one's.
fn cause(condition: &Condition) -> (&str, &str) {
    let own = (condition.reason.as_str(), condition.message.as_str());
    if condition.reason == "ServiceNotReady" {
        condition.message.split_once(": ").unwrap_or(own)
    } else {
        own
    }
}
