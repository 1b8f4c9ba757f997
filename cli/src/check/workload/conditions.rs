//! What the zero-scaler reports in the conditions of a PodAutoscaler.

use autoscaler::api::PodAutoscaler;
use autoscaler::findings::reasons::{CheckReason, Reason, description, filled};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

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
/// Seconds in which a new PodAutoscaler gets its first status.
const FIRST_STATUS: i64 = 60;

pub(super) fn check(workload: &WorkloadObjects) -> Vec<Finding> {
    let Some(autoscaler) = &workload.autoscaler else { return Vec::new() };
    if autoscaler.status.is_none() {
        return without_status(workload).into_iter().collect();
    }
    problems(autoscaler, workload.shared.version)
}

fn without_status(workload: &WorkloadObjects) -> Option<Finding> {
    let created = workload.autoscaler.as_ref()?.metadata.creation_timestamp.as_ref()?.0;
    let age = workload.shared.now.as_second().saturating_sub(created.as_second());
    (age > FIRST_STATUS).then(|| {
        let problem = format!("it was created at {created} and has no status: no zero-scaler reconciles it");
        Finding::error(format!("PodAutoscaler {}", workload.key), CheckReason::NotReconciled, problem)
    })
}

/// The problems that its conditions report, each reason once.
pub fn problems(autoscaler: &PodAutoscaler, version: ClusterVersion) -> Vec<Finding> {
    let conditions = autoscaler.status.iter().flat_map(|status| &status.conditions);
    let mut problems: Vec<Finding> = Vec::new();
    for (kind, ..) in CONDITIONS {
        let mut of_kind = conditions.clone().filter(|condition| condition.type_ == kind);
        let reported = of_kind.next().and_then(|condition| problem(autoscaler, condition, version));
        if let Some(problem) = reported
            && problems.iter().all(|known| known.reason != problem.reason)
        {
            problems.push(problem);
        }
    }
    problems
}

/// The problem that a condition reports; `None` if there is nothing to fix.
pub fn problem(
    autoscaler: &PodAutoscaler,
    condition: &Condition,
    version: ClusterVersion,
) -> Option<Finding> {
    let (_, statuses, severity) = CONDITIONS.into_iter().find(|(kind, ..)| *kind == condition.type_)?;
    let (reason, message) = cause(condition);
    // The API server drops the field before 1.35, so nothing can be changed.
    let is_beyond_reach = reason == Reason::ToleranceNotZero.as_str() && !version.has_tolerance();
    let usual = description(reason).map_or("see docs/reference/conditions.md", |row| row.fix);
    if !statuses.contains(&condition.status.as_str()) || is_beyond_reach || usual.is_empty() {
        return None;
    }
    let (namespace, name) = (autoscaler.namespace().unwrap_or_default(), autoscaler.name_any());
    let target = &autoscaler.spec.scale_target_ref;
    let target = format!("{}/{}", target.kind.to_lowercase(), target.name);
    let fix = filled(usual, &namespace, &name, &target);
    // The message of a condition has the fix too.
    let problem = message.strip_suffix(&fix).and_then(|message| message.strip_suffix("; "));
    let problem = problem.unwrap_or(message).to_owned();
    let object = format!("PodAutoscaler {namespace}/{name}");
    Some(Finding { severity, object, reason: reason.to_owned(), problem, fix })
}

/// Reason and message. A workload whose ServerlessService is not ready repeats that one's.
fn cause(condition: &Condition) -> (&str, &str) {
    let own = (condition.reason.as_str(), condition.message.as_str());
    if condition.reason == Reason::ServiceNotReady.as_str() {
        condition.message.split_once(": ").unwrap_or(own)
    } else {
        own
    }
}
