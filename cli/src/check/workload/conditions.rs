//! What the zero-scaler reports in the conditions of a PodAutoscaler.

use autoscaler::api::{condition, reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

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

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(status) = workload.autoscaler.as_ref().and_then(|it| it.status.as_ref()) else {
        return Vec::new();
    };
    let reported = CONDITIONS.into_iter().filter_map(|(kind, statuses, severity)| {
        let condition = condition(&status.conditions, kind)?;
        statuses.contains(&condition.status.as_str()).then(|| finding(workload, condition, severity))?
    });
    let mut findings: Vec<Finding> = Vec::new();
    for finding in reported {
        if findings.iter().all(|known| known.reason != finding.reason) {
            findings.push(finding);
        }
    }
    findings
}

/// `None` for reasons that need no fix.
fn finding(workload: &WorkloadObjects, condition: &Condition, severity: Severity) -> Option<Finding> {
    let (reason, message) = cause(condition);
    // The API server drops the field before 1.35, so nothing can be changed.
    if reason == "ToleranceNotZero" && !workload.version.has_tolerance() {
        return None;
    }
    let description = reasons::describe().into_iter().find(|row| row.reason == reason);
    let fix = description.map_or_else(
        || "see docs/reference/conditions.md".to_owned(),
        |description| description.fix.to_owned(),
    );
    (!fix.is_empty()).then(|| Finding {
        severity,
        object: format!("PodAutoscaler {}", workload.key),
        reason: reason.to_owned(),
        problem: message.to_owned(),
        fix,
    })
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
